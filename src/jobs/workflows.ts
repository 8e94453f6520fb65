import { hasEnded } from '../base/index.js'
import type { JobDefinition } from './definition.js'
import type { ChildOptions } from './enqueue-options.js'
import type { RecordedError } from './errors.js'
import type { JobRef } from './job-ref.js'
import type { JobStatus, StatusRow } from './status.js'

/** Handle to a job in a workflow under construction. */
export interface WorkflowJob {
  readonly kind: string
}

/**
 * Options for `workflow.add`. These are the options of `jobs.enqueue`, but `after` also accepts jobs in the same
 * workflow.
 */
export interface WorkflowJobOptions extends Omit<ChildOptions, 'after' | 'unique'> {
  after?: readonly (WorkflowJob | JobRef | number)[] | undefined
}

/** Collects a workflow's jobs before they are enqueued. */
export interface WorkflowBuilder {
  /** Adds a job to the workflow. Returns a handle that later jobs can use in `after`. */
  add(definition: JobDefinition<null>, input?: null, options?: WorkflowJobOptions): WorkflowJob
  add<Input>(definition: JobDefinition<Input>, input: NoInfer<Input>, options?: WorkflowJobOptions): WorkflowJob
}

/** An enqueued workflow. */
export interface WorkflowRef {
  /** The workflow's ID, which is the ID of its first job. */
  readonly id: number
  /** Jobs in the order in which they were added. */
  readonly jobs: readonly JobRef[]
}

/** A workflow's status. */
export interface WorkflowStatus {
  readonly id: number
  /** Whether all of the workflow's jobs have ended. */
  readonly isOver: boolean
  /** Number of jobs in each state. */
  readonly counts: Readonly<Partial<Record<JobStatus['state'], number>>>
  /** Jobs in the order in which they were added, followed by jobs that handlers enqueued. */
  readonly jobs: readonly WorkflowMember[]
}

/** A job in a workflow. */
export interface WorkflowMember {
  readonly id: number
  readonly kind: string
  readonly state: JobStatus['state']
  /** Jobs that must end before this job. */
  readonly after: readonly number[]
  /** Jobs in `after`, within this workflow, that have not ended or have failed. */
  readonly waitsFor: readonly number[]
  /** Number of attempts. */
  readonly attempts: number
  readonly enqueuedAt: Date
  readonly claimedAt: Date | undefined
  readonly endedAt: Date | undefined
  /** Error that ended the job. */
  readonly error: RecordedError | undefined
}

type SharedColumn = 'id' | 'kind' | 'state' | 'enqueued_at' | 'claimed_at' | 'ended_at' | 'error'

export interface WorkflowRow extends Pick<StatusRow, SharedColumn> {
  readonly workflow: string
  readonly after: number[] | null
  readonly attempts: number
}

export function workflowOf(rows: readonly WorkflowRow[]): WorkflowStatus {
  const states = new Map(rows.map(({ id, state }) => [Number(id), state]))
  const counts: Partial<Record<JobStatus['state'], number>> = {}
  const jobs = rows.map((row): WorkflowMember => {
    counts[row.state] = (counts[row.state] ?? 0) + 1
    const after = row.after ?? []
    return {
      id: Number(row.id),
      kind: row.kind,
      state: row.state,
      after,
      waitsFor: row.state === 'waiting' ? after.filter((id) => !isDone(states.get(id))) : [],
      attempts: row.attempts,
      enqueuedAt: row.enqueued_at,
      claimedAt: row.claimed_at ?? undefined,
      endedAt: row.ended_at ?? undefined,
      error: row.error === null ? undefined : JSON.parse(row.error),
    }
  })
  const isOver = rows.every(({ state }) => hasEnded(state))
  return { id: Number(rows[0]!.workflow), isOver, counts, jobs }
}

function isDone(state: JobStatus['state'] | undefined): boolean {
  return state === undefined || state === 'done' || state === 'discarded'
}
