const second = 1_000
const minute = 60 * second
const day = 86_400 * second

/**
 * Default values, in milliseconds, of the public API's and the command line's options that are durations. Infinity
 * means no limit. docs/reference/default-times.md describes each value (scripts/reference/default-times.ts).
 */
export const defaultTimes = {
  /** `expiry` of `Holdfast.open`. */
  expiryMs: 10 * second,
  /** `wait` of calls that throw an error if a lock or a lease is not granted in time. */
  acquireWaitMs: Number.POSITIVE_INFINITY,
  /** `wait` of `tryAcquire` and `tryInTransaction` of locks and leases. */
  tryAcquireWaitMs: 0,
  /** `ttl` of leases. */
  leaseTtlMs: 30 * second,
  /** `minHold` of leases. */
  leaseMinHoldMs: 0,
  /** `spread` of leases. */
  leaseSpreadMs: 0,
  /** `wait` for a permit of a limit. */
  limitWaitMs: 0,
  /** `wait` of `limits.consume`. */
  rateWaitMs: 0,
  /** `wait` of a duplicate. */
  onceWaitMs: 0,
  /** `retain` of a recorded result. */
  onceRetainMs: 7 * day,
  /** `window` of a round without a name. */
  shareWindowMs: 10 * second,
  /** `spread` of a schedule. */
  scheduleSpreadMs: 40,
  /** `backoff` after the first failure of a job. */
  jobBackoffMs: second,
  /** `maxBackoff` of a job. */
  jobMaxBackoffMs: 60 * minute,
  /** `wait` of a batch that is not full. */
  batchWaitMs: 0,
  /** `wait` of `jobs.result`. */
  jobResultWaitMs: 30 * second,
  /** `retain` of ended jobs. */
  jobRetainMs: 7 * day,
  /** `within` of `holdfast.drain`, and of `close` of a worker or a schedule. */
  drainWithinMs: 30 * second,
  /** `patience` of the doctor. */
  doctorPatienceMs: 10 * minute,
  /** `patience` of the doctor for jobs without a worker. Shorter, because a missing worker is a problem that does not resolve itself. */
  doctorUnservedPatienceMs: 30 * second,
  /** `within` of `drain` of the test kit. */
  testDrainWithinMs: 30 * second,
  /** `within` of `jobEnded` of the test kit. */
  testJobEndedWithinMs: 10 * second,
  /** `--drain` of `holdfast work`. Shorter than the time that Kubernetes and most process managers wait before they kill a process. */
  workDrainMs: 20 * second,
  /** `--kill-after` of `holdfast lock run`. */
  lockRunKillAfterMs: 5 * second,
  /** `--interval` of `holdfast top`. */
  topIntervalMs: 2 * second,
  /** `--since` of `holdfast changes` and `holdfast job stats`. */
  sinceMs: 60 * minute,
} as const
