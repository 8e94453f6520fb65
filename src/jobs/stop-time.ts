/** Time allowed for a handler to stop after its signal is aborted. */
export const stopMs = 5_000
