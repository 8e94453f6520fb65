import type { JobStep } from './job-step.js'

/**
 * Reason why a job is not running yet. `time`: the job is waiting for its start time. `attempt`: the job is waiting for
 * its next attempt. `sleep`: its handler has called `job.sleep`. `event`: its handler has called `job.event`. `pause`: the job's queue is paused. `jobs`: other jobs must end or be retried first. `lane`: the
 * job's lane is full. `rate`: the lane's rate limit is exhausted. `budget`: a budget has no room. `worker`: no worker serves the queue (`queue`), or
 * none of the queue's workers has a definition for the job's kind (`kind`). `turn`: a worker will claim the job.
 * `ahead` is the number of jobs before this job, counted up to 10,000.
 */
export type WaitsFor = {
  /** The reason as a phrase that completes "the job is waiting for". */
  readonly text: string
} & (
  | {
      /** The job is waiting for its start time or its next attempt. */
      readonly reason: 'time' | 'attempt'
      /** Time when the wait ends. */
      readonly until: Date
    }
  | {
      /** The job sleeps. */
      readonly reason: 'sleep'
      /** Name of the step. */
      readonly step: string
      /** Time when the sleep ends. */
      readonly until: Date
    }
  | {
      /** The job waits for an event. */
      readonly reason: 'event'
      /** Name of the event. */
      readonly event: string
      /** Time when the job continues without the event. */
      readonly until: Date
    }
  | {
      /** The queue is paused. */
      readonly reason: 'pause'
      /** Time when the pause started. */
      readonly since: Date
    }
  | {
      /** Other jobs must end or be retried first. */
      readonly reason: 'jobs'
      /**
       * Jobs that must end first. Empty if all these jobs have ended, and this job is about to be released or
       * cancelled.
       */
      readonly jobs: readonly {
        /** ID of the job. */
        readonly id: number
        /** State of the job. */
        readonly state: string
      }[]
    }
  | {
      /** The lane is full. */
      readonly reason: 'lane'
      /** Name of the lane. */
      readonly lane: string
      /** Number of slots in the lane. */
      readonly max: number
      /** Jobs that occupy these slots. */
      readonly running: readonly {
        /** ID of the job. */
        readonly id: number
        /** ID of the instance that is running the job. */
        readonly instance: string | undefined
        /** Name of the instance that is running the job. */
        readonly instanceName: string | undefined
      }[]
      /** Number of jobs that are waiting ahead of this job, counted up to 10,000. */
      readonly ahead: number
    }
  | {
      /** The lane's rate limit is exhausted. */
      readonly reason: 'rate'
      /** Name of the lane. */
      readonly lane: string
      /** Earliest time when the wait can end. */
      readonly until: Date
      /** Number of jobs that are waiting ahead of this job, counted up to 10,000. */
      readonly ahead: number
    }
  | {
      /** A budget that the job needs has no room. */
      readonly reason: 'budget'
      /** Name of the budget. */
      readonly budget: string
      /** Maximum sum of the weights of the running jobs. */
      readonly max: number
      /** Sum of the weights of the budget's jobs that are running or ready. */
      readonly used: number
      /** Earliest time when the rate limit of the budget allows another job. Undefined if its rate does not delay the job. */
      readonly until: Date | undefined
      /** Number of jobs that are waiting ahead of this job, counted up to 10,000. */
      readonly ahead: number
    }
  | {
      /** No worker can claim the job. */
      readonly reason: 'worker'
      /** `queue`: no worker serves the queue. `kind`: none of the queue's workers has a definition for this kind. */
      readonly unserved: 'queue' | 'kind'
    }
  | {
      /** A worker will claim the job. If the job has a group, the turn of the group must come first. */
      readonly reason: 'turn'
      /** Number of jobs that will be claimed before this job, counted up to 10,000. */
      readonly ahead: number
    }
)

export interface WaitsForRow {
  readonly stage: 'time' | 'jobs' | 'lane' | 'budget' | 'ready'
  readonly kind: string
  readonly run_at: Date | null
  readonly is_due: boolean
  readonly failed: number
  readonly paused_at: Date | null
  readonly unserved: 'queue' | 'kind' | null
  readonly ahead: number
  readonly lane: string | null
  readonly scope: 'lane' | 'budget' | 'round' | null
  readonly max: number | null
  readonly active: number | null
  readonly free_at: Date | null
  readonly running: { id: number; instance: string | null; instanceName: string | null }[] | null
  readonly jobs: { id: number; state: string }[] | null
}

export function waitsForOf(row: WaitsForRow, steps: readonly JobStep[]): WaitsFor {
  const { stage, run_at: until, paused_at: since, ahead } = row
  if (stage === 'time' && !row.is_due && until !== null) {
    const text = `until ${until.toISOString()}`
    // The job may also be waiting for another attempt, which has not reached the open step yet.
    const open = steps.find((step) => step.endedAt === null && Math.abs(Date.parse(step.until!) - +until) < 1_000)
    if (open?.event) return { reason: 'event', event: open.event, until, text: `the event "${open.event}", ${text}` }
    if (open) return { reason: 'sleep', step: open.name, until, text: `the end of its sleep, ${text}` }
    const what = row.failed > 0 ? 'its next attempt' : 'its time'
    return { reason: row.failed > 0 ? 'attempt' : 'time', until, text: `${what}, ${text}` }
  }
  if (stage === 'jobs') {
    const jobs = row.jobs ?? []
    const listed = jobs.map(({ id, state }) => `${id} (${state})`).join(', ')
    return {
      reason: 'jobs',
      jobs,
      text: jobs.length > 0 ? `other jobs: ${listed}` : 'its release, because all jobs on which it depends have ended',
    }
  }
  if (stage === 'lane' && row.lane !== null) {
    const [lane, max] = [row.lane, row.max ?? 1]
    if (row.free_at !== null && (row.active ?? 0) < max) {
      const text = `the rate limit of its lane ${lane}, until ${row.free_at.toISOString()} at the earliest, behind ${many(ahead)}`
      return { reason: 'rate', lane, until: row.free_at, ahead, text }
    }
    const running = (row.running ?? []).map(({ id, instance, instanceName }) => ({
      id,
      instance: instance ?? undefined,
      instanceName: instanceName ?? undefined,
    }))
    const holders = running.length > 0 ? ` (by ${running.map(({ id }) => id).join(', ')})` : ''
    const text = `its lane ${lane}: ${row.active ?? 0} of ${max} slots are in use${holders}, behind ${many(ahead)}`
    return { reason: 'lane', lane, max, running, ahead, text }
  }
  if (row.scope === 'budget' && row.lane !== null) {
    const [budget, max, used] = [row.lane, row.max ?? 1, row.active ?? 0]
    const until = used < max ? (row.free_at ?? undefined) : undefined
    const what = until
      ? `the rate limit of the budget ${budget}, until ${until.toISOString()} at the earliest`
      : `the budget ${budget}: ${used} of ${max} are in use`
    return { reason: 'budget', budget, max, used, until, ahead, text: `${what}, behind ${many(ahead)}` }
  }
  if (since !== null)
    return { reason: 'pause', since, text: `its queue, which has been paused since ${since.toISOString()}` }
  if (row.unserved === 'queue')
    return { reason: 'worker', unserved: 'queue', text: 'a worker, because no worker serves its queue' }
  if (row.unserved === 'kind') {
    const text = `a worker, because none of its queue's workers has a definition for the kind ${row.kind}`
    return { reason: 'worker', unserved: 'kind', text }
  }
  return {
    reason: 'turn',
    ahead,
    text: ahead === 0 ? 'its turn, because it is next in its queue' : `its turn, behind ${many(ahead)}`,
  }
}

function many(ahead: number): string {
  return ahead === 1 ? '1 other' : `${ahead === 10_000 ? 'at least 10,000' : ahead} others`
}
