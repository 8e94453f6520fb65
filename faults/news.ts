/**
 * How long the news of an ended session may take to a process that is busy, on a busy machine: for so long it may still believe, and the
 * next one be granted. A process that is told knows it when it reads the packet, which may be after its own timers were late, and after the
 * look that writes down what it believes. The deadline by which everybody must stop believing, the expiry, is not moved by this.
 */
export const newsMs = 1_000
