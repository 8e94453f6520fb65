// A week of a typical fleet, pressed into ten minutes: what happens in it, by count. A longer or shorter run has the same pace, and
// seven days of its own length.

/** So long a week of work takes here. */
export const weekMs = 600_000

export const days = 7

/** Of these the first stays from the first day to the last: what leaks in a process shows in it. The others are replaced all the time. */
export const instances = 4

export const week = {
  /** Each anchor is cut off once an hour. */
  reconnects: 7 * 24 * instances,
  /** Four deploys a day of the three instances that are replaced; of every four one is killed. */
  replacements: 7 * 4 * (instances - 1),
  /** One schedule a minute is 10,080; some by the hour, some by the day. By so many schedules that tick every second here. */
  ticks: 12_000,
  /** Calls that enqueue; one in ten is a workflow of three jobs. */
  jobs: 35_000,
  locks: 35_000,
  leases: 14_000,
  permits: 14_000,
  rates: 14_000,
  deliveries: 28_000,
  /** Of shares, one an hour, and every instance takes part. */
  rounds: 7 * 24 * instances,
  /** Elections of a name of its own, which is never used again. */
  elections: 7 * 30,
  /** Somebody opens the dashboard, or asks the doctor. */
  looks: 7 * 20,
}
