export type { BatchHandler, BatchJob, BatchOptions } from './batches.js'
export {
  type BatchJobOptions,
  type ChildOptions,
  cancel,
  defineJob,
  discard,
  type JobContext,
  type JobDefinition,
  type JobOptions,
  type LaneOptions,
  type Outcome,
  type RetryOptions,
  retryAfter,
  type Schema,
} from './define.js'
export type { EnqueueManyOptions, EnqueueOptions, JobRef } from './enqueue-options.js'
export * from './errors.js'
export type { Imported, ImportOptions } from './import/import.js'
export { type ImportSource, importSources, type WhyLeft } from './import/source.js'
export {
  Jobs,
  type JobsOptions,
  type ResultOptions,
  type WorkOptions,
} from './jobs.js'
export type { FailedAttempt, JobStatus } from './status.js'
export { UniqueKeyBusyError, type UniqueOptions } from './unique.js'
export type { WaitsFor } from './waits-for.js'
export type { Worker } from './worker.js'
export type {
  JobParent,
  WorkflowBuilder,
  WorkflowJob,
  WorkflowJobOptions,
  WorkflowMember,
  WorkflowRef,
  WorkflowStatus,
} from './workflows.js'
