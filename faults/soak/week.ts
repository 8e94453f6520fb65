// A typical fleet's work in a week, which the soak test does in ten minutes. A longer or shorter run has the same pace.
// Its seven days are longer or shorter.

/** Time for one week of work. */
export const weekMs = 600_000

export const days = 7

/** Number of instances. The first one runs for the whole week, so that leaks within a process become visible. The others are replaced. */
export const instances = 4

export const week = {
  /** Each anchor's session is ended once an hour. */
  reconnects: 7 * 24 * instances,
  /** Four deployments per day replace three instances each. Every fourth of these instances is killed. */
  replacements: 7 * 4 * (instances - 1),
  /** A schedule that ticks every minute has 10,080 ticks per week. Here, 20 schedules tick every second. */
  ticks: 12_000,
  /** Calls that enqueue. One in ten enqueues a workflow of three jobs. */
  jobs: 35_000,
  locks: 35_000,
  leases: 14_000,
  permits: 14_000,
  rates: 14_000,
  deliveries: 28_000,
  /** Rounds of shares. There is one per hour, and every instance takes part. */
  rounds: 7 * 24 * instances,
  /** Elections, each with a new name. */
  elections: 7 * 30,
  /** Visits to the dashboard, with a run of the doctor. */
  visits: 7 * 20,
}
