import { hasEnded } from '../base/index.js'
import type { JobDefinition } from './definition.js'
import type { ChildOptions } from './enqueue-options.js'
import type { RecordedError } from './errors.js'
import type { JobRef } from './job-ref.js'
import type { JobStatus } from './status.js'

/** A job of a workflow that is being built. */
export interface WorkflowJob {
  readonly kind: string
}

/** As for `jobs.enqueue`; `after` names jobs of the workflow, too. */
export interface WorkflowJobOptions extends Omit<ChildOptions, 'after' | 'unique'> {
  after?: readonly (WorkflowJob | JobRef | number)[] | undefined
}

/** Takes the jobs of a workflow. */
export interface WorkflowBuilder {
  /** Adds a job. What it answers is for `after` of those that are added later. */
  add<Input>(
    // biome-ignore lint/suspicious/noExplicitAny: whatever its handler takes and returns
    definition: JobDefinition<Input, any, any>,
    input: Input,
    options?: WorkflowJobOptions,
  ): WorkflowJob
}

/** A workflow that was enqueued. */
export interface WorkflowRef {
  /** That of its first job. */
  readonly id: number
  /** In the order in which they were added. */
  readonly jobs: readonly JobRef[]
}

/** A workflow, as a look at the database shows it. */
export interface WorkflowStatus {
  readonly id: number
  /** Whether all of its jobs have ended. */
  readonly isOver: boolean
  /** How many of its jobs are in each state. */
  readonly counts: Readonly<Partial<Record<JobStatus['state'], number>>>
  /** In the order in which they were added; those that handlers enqueued come behind. */
  readonly jobs: readonly WorkflowMember[]
}

/** A job of a workflow. */
export interface WorkflowMember {
  readonly id: number
  readonly kind: string
  readonly state: JobStatus['state']
  /** The jobs that have to end before it. */
  readonly after: readonly number[]
  /** Those of them, in the workflow, that have not ended, or failed. */
  readonly waitsFor: readonly number[]
  /** How often it was tried. */
  readonly attempts: number
  readonly enqueuedAt: Date
  readonly claimedAt: Date | undefined
  readonly endedAt: Date | undefined
  /** Why it did not come to its end. */
  readonly error: RecordedError | undefined
}

export interface WorkflowRow {
  readonly workflow: string
  readonly id: string
  readonly kind: string
  readonly state: JobStatus['state']
  readonly after: number[] | null
  readonly attempts: number
  readonly enqueued_at: Date
  readonly claimed_at: Date | null
  readonly ended_at: Date | null
  readonly error: string | null
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
