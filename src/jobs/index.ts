export {
  type Budget,
  type BudgetOptions,
  type BudgetUse,
  defineBudget,
  type JobGroup,
  type PlannedBudget,
} from './budgets.js'
export type { JobsOptions } from './context.js'
export {
  type BatchJobOptions,
  defineJob,
  type ImplementedJobOptions,
  implement,
  type JobOptions,
  type ThreadJobOptions,
} from './define.js'
export type {
  Batch,
  BatchHandler,
  BatchJob,
  BatchOptions,
  BatchResults,
  EventOptions,
  HandlerResult,
  ImplementedJob,
  JobContext,
  JobCursor,
  JobDefinition,
  JobHandler,
  SleepOptions,
  StepContext,
  ThreadHandler,
  ThreadJob,
  ThreadOptions,
  Threads,
} from './definition.js'
export type { ChildOptions, EnqueueManyOptions, EnqueueOptions } from './enqueue-options.js'
export * from './errors.js'
export {
  type Applicable,
  applicable,
  batchesOf,
  type JobFilter,
  type JobList,
  type ListJobsOptions,
  type ManyVerb,
  type QueueStatus,
} from './found-jobs.js'
export type { ImportOptions, ImportResult } from './import/import.js'
export { type ImportSource, importSources, type SkipReason } from './import/source.js'
export type { JobOrId, JobRef } from './job-ref.js'
export type { JobStep } from './job-step.js'
export { Jobs, type ResultOptions, type RetryJobOptions, type SendOptions, type WorkOptions } from './jobs.js'
export type { LaneOptions, LanePolicy } from './lanes.js'
export { JobOutcome } from './outcome.js'
export type { JobParent } from './parents.js'
export type { BackoffFunction, JobRetryOptions, RetryOptions } from './policy.js'
export type { Schema, Verdict } from './schema.js'
export type { FailedAttempt, JobStatus } from './status.js'
export { UniqueKeyBusyError, type UniqueOptions } from './unique.js'
export type { JobChanges, JobInputChanges } from './update.js'
export type { WaitsFor } from './waits-for.js'
export type { Worker } from './worker.js'
export type {
  WorkflowBuilder,
  WorkflowJob,
  WorkflowJobOptions,
  WorkflowMember,
  WorkflowRef,
  WorkflowStatus,
} from './workflows.js'
