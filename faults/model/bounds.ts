// What is explored: the short bound with each change, the deep bound every night, and a model for each planted bug.
import { type Action, type Bound, explore, type Model, type Result } from './explore.ts'
import { type HoldBug, type HoldsOptions, holdBugs, holds } from './holds.ts'
import { type JobBug, type JobFault, type JobsOptions, jobBugs, jobFaults, jobs } from './jobs.ts'

export interface Exploration {
  readonly name: string
  readonly bug?: string
  readonly actions: readonly Pick<Action<never>, 'name' | 'sql'>[]
  /** Whether the bound ends the exploration before all states have been visited. */
  readonly isBounded: boolean
  readonly run: () => Result
}

function exploration<State>(model: Model<State>, bound: Bound = {}): Exploration {
  return {
    name: model.name,
    actions: model.actions.map(({ name, sql }) => ({ name, sql })),
    isBounded: bound.maxDepth !== undefined,
    run: () => explore(model, bound),
  }
}

const leases: HoldsOptions = { actors: ['lease', 'lease'], faults: 0 }
const both: HoldsOptions = { actors: ['lock', 'lease'], faults: 0 }
const locks: HoldsOptions = { actors: ['lock', 'lock'], faults: 0 }
const twoJobs: JobsOptions = { workers: 2, transactions: [1, 1], claims: 2, lane: 0, faults: 0, kinds: [] }
const inLane: JobsOptions = { ...twoJobs, lane: 1 }

const withFaults = (options: HoldsOptions, faults = 1): HoldsOptions => ({ ...options, faults })
const withRestart: HoldsOptions = { ...locks, faults: 1, kinds: ['restart the server'], hasWrites: false }
const withJobFaults = (options: JobsOptions, ...kinds: JobFault[]): JobsOptions => ({ ...options, faults: 1, kinds })

const ofHolds = (options: HoldsOptions, bound?: Bound) => exploration(holds(options), bound)
const ofJobs = (options: JobsOptions, bound?: Bound) => exploration(jobs(options), bound)

export const shortBound = (): Exploration[] => [
  ofHolds(withFaults(leases), { maxDepth: 8 }),
  ofHolds(withFaults(both), { maxDepth: 7 }),
  ofHolds(withFaults(locks), { maxDepth: 7 }),
  ofJobs(twoJobs),
  ofJobs({ ...twoJobs, claims: 1 }),
  ofJobs(inLane),
  ofJobs(withJobFaults(twoJobs, ...jobFaults), { maxDepth: 11 }),
]

export const deepBound = (): Exploration[] => [
  ofHolds(leases),
  ofHolds(both),
  ofHolds(locks, { maxDepth: 24 }),
  ofHolds(withFaults(leases), { maxDepth: 15 }),
  ofHolds(withFaults(both), { maxDepth: 13 }),
  ofHolds(withFaults(locks), { maxDepth: 13 }),
  ofHolds(withFaults(leases, 2), { maxDepth: 11 }),
  ofHolds(withFaults(both, 2), { maxDepth: 10 }),
  ofHolds(withFaults(locks, 2), { maxDepth: 10 }),
  ofHolds({ actors: ['lock', 'lock', 'lease'], faults: 1 }, { maxDepth: 8 }),
  ofJobs({ ...twoJobs, transactions: [1, 1, 1] }),
  ofJobs({ ...twoJobs, transactions: [2, 1] }),
  ofJobs(withJobFaults(twoJobs, 'kill')),
  ofJobs(withJobFaults(twoJobs, 'freeze')),
  ofJobs(withJobFaults(twoJobs, 'response')),
  ofJobs(withJobFaults(twoJobs, 'return')),
  ofJobs(withJobFaults(twoJobs, 'rollback')),
  ofJobs(withJobFaults(twoJobs, 'restart')),
  ofJobs(withJobFaults(twoJobs, 'failover'), { maxDepth: 17 }),
  ofJobs(withJobFaults(twoJobs, 'restore'), { maxDepth: 17 }),
  ofJobs(withJobFaults(inLane, ...jobFaults), { maxDepth: 12 }),
  ofJobs({ ...twoJobs, faults: 2, kinds: ['kill', 'freeze', 'response'] }, { maxDepth: 16 }),
  ofJobs({ ...twoJobs, workers: 3, faults: 2, kinds: jobFaults }, { maxDepth: 9 }),
]

const holdsOf: Record<HoldBug, HoldsOptions> = {
  'the guard does not compare fences': leases,
  'the client trusts a session for longer than the server does': both,
  'the client trusts a lease for longer than the server does': leases,
  'a lock is granted without a check for a lease of the name': both,
  'a lease is released without a check of its holder': leases,
  'a lease is granted again shortly before it expires': leases,
  'new instances do not wait for earlier instances after a restart': withRestart,
  'neither the clock nor the tables determine where numbers continue after a restore': withFaults(leases),
  'a restore is not detected': withFaults(leases),
  'a leader is not notified that its term has ended': both,
  'a lease is checked before the lock is granted': both,
  // A lease can be renewed and expire again while the statement that grants the lock is running.
  'the clock is read after the row of a lease': { ...both, expiry: 4, hasWrites: false },
  'a server generation never settles': withRestart,
  'a new epoch keeps the locks of other sessions': withRestart,
}

const jobsOf: Record<JobBug, JobsOptions> = {
  'a window skips late commits': twoJobs,
  'the frontier is read before the lock': twoJobs,
  'a worker ends a job that another worker has taken over': withJobFaults(twoJobs, 'freeze'),
  'a takeover forgets a job': twoJobs,
  'restored jobs keep the transaction ids of another cluster': withJobFaults(twoJobs, 'restore'),
  'a live instance counts as dead': twoJobs,
  'a window contains entries that were committed after it was opened': twoJobs,
  'a takeover does not wait for a claim in progress': withJobFaults(twoJobs, 'kill'),
  'an end is recorded without a check for an earlier end': twoJobs,
  'a crash counts for all jobs of the claim': withJobFaults(twoJobs, 'kill'),
  'a claim is deleted although a job remains': withJobFaults(twoJobs, 'failover'),
  'a lane runs one job too many': inLane,
  'a job that a takeover returns never gives its room back': inLane,
}

/** One exploration for each bug, with the fewest actors and faults that it needs. */
export const mutants = (): Exploration[] => [
  ...holdBugs.map((bug) => ({ ...ofHolds({ ...holdsOf[bug], bug }), bug })),
  ...jobBugs.map((bug) => ({ ...ofJobs({ ...jobsOf[bug], bug }), bug })),
]
