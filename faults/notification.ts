/**
 * Maximum time until a busy process on a busy machine notices that its session has ended. PostgreSQL may grant the lock to another process in
 * this time. The process notices the end when it reads the packet, which may be after late timers and after the check that records the hold.
 * This time does not change the expiry, after which no process may treat its hold as valid.
 */
export const maxNotificationMs = 1_000
