// The package's entry point: all exports that are available through `import … from 'holdfast'`.

// The instance, which makes this process a member of the fleet.

export { type DoctorOptions, Holdfast } from './holdfast.js'
export { type HoldfastOptions, type JobsSettings, version } from './instance-context.js'
export type { Logger } from './log/index.js'

// Locks: distributed mutexes and read-write locks, held by a session or a transaction.

export type { KeySpace, Lock, Lockable, LockMode, LockOptions, Locks, TransactionLock } from './locks/index.js'
export { LockLostError, LockTimeoutError, ReleaseRequestedError } from './locks/index.js'

// Leases: locks that expire. A lease's holder is identified by a token instead of a database session.

export type { Lease, LeaseOptions, Leases } from './leases/index.js'
export { LeaseLostError, LeaseTimeoutError } from './leases/index.js'

// Elections: one leader in the fleet.

export type { Campaign, CampaignOptions, Elections, Leader, Leadership, StepDownReason } from './elections/index.js'
export { SteppedDownError } from './elections/index.js'

// Limits: semaphores and rate limits.

export type {
  ConsumeOptions,
  LimitOptions,
  Limits,
  LimitUsage,
  Permit,
  PermitUser,
  Rate,
  RateOutcome,
} from './limits/index.js'
export { LimitReachedError, PermitLostError } from './limits/index.js'

// Once: functions whose effect happens exactly once for each idempotency key.

export type {
  Delivery,
  Once,
  OnceAnswer,
  OnceInTransactionOptions,
  OnceOptions,
  RecordedFailure,
} from './once/index.js'
export { FingerprintMismatchError, OnceLostError, RecordedFailureError } from './once/index.js'

// Shares: resources divided among the instances.

export type {
  Assignment,
  EachOptions,
  EachResult,
  HandoverReason,
  OwnedResource,
  ResourceFailure,
  Resources,
  Shares,
} from './shares/index.js'
export { ResourceMovedError, ResourcesFailedError } from './shares/index.js'

// Schedules: cron jobs for the fleet.

export type { LocalTick, RuleOptions, ScheduleRule, TickRule } from './cron/index.js'
export type {
  JobScheduleOptions,
  PastGap,
  PastRun,
  Schedule,
  ScheduleDefinition,
  ScheduledJob,
  ScheduleListOptions,
  ScheduleOptions,
  ScheduleRun,
  ScheduleStatus,
  Schedules,
  StoredScheduleOptions,
  UpsertOutcome,
} from './schedules/index.js'
export {
  defineSchedule,
  RunLostError,
  RunReplacedError,
  RunTimeoutError,
  UnknownScheduleError,
} from './schedules/index.js'

// Jobs: the job queue, with workflows, lanes and unique keys.

export type { JobMeta, JobProgress, JobState, LogLine } from './base/index.js'
export type {
  BackoffFunction,
  Batch,
  BatchHandler,
  BatchJob,
  BatchJobOptions,
  BatchOptions,
  BatchResults,
  Budget,
  BudgetOptions,
  BudgetUse,
  ChildOptions,
  EnqueueManyOptions,
  EnqueueOptions,
  EventOptions,
  FailedAttempt,
  HandlerResult,
  ImplementedJob,
  ImplementedJobOptions,
  ImportOptions,
  ImportResult,
  ImportSource,
  JobChanges,
  JobContext,
  JobCursor,
  JobDefinition,
  JobFilter,
  JobGroup,
  JobHandler,
  JobInputChanges,
  JobList,
  JobOptions,
  JobOrId,
  JobParent,
  JobRef,
  JobRetryOptions,
  JobStatus,
  JobStep,
  Jobs,
  LaneOptions,
  LanePolicy,
  ListJobsOptions,
  PlannedBudget,
  QueueStatus,
  RecordedError,
  ResultOptions,
  RetryJobOptions,
  RetryOptions,
  Schema,
  SendOptions,
  SkipReason,
  SleepOptions,
  StepContext,
  ThreadHandler,
  ThreadJob,
  ThreadJobOptions,
  ThreadOptions,
  Threads,
  UniqueOptions,
  Verdict,
  WaitsFor,
  Worker,
  WorkflowBuilder,
  WorkflowJob,
  WorkflowJobOptions,
  WorkflowMember,
  WorkflowRef,
  WorkflowStatus,
  WorkOptions,
} from './jobs/index.js'
export {
  DuplicateStepError,
  defineBudget,
  defineJob,
  InvalidInputError,
  implement,
  JobCancelledError,
  JobFailedError,
  JobLostError,
  JobOutcome,
  JobSuspendedError,
  JobTimeoutError,
  NonRetryableError,
  NotInThreadError,
  PayloadTooLargeError,
  ResultTimeoutError,
  StepLimitError,
  ThreadEndedError,
  ThreadModuleError,
  UniqueKeyBusyError,
  UnknownQueueError,
  UnknownSourceError,
} from './jobs/index.js'

// Lists of jobs and queues.

export type { ObservedJob, ObservedQueue, QueueName, QueueRates, RateKind } from './observe/index.js'
export type { JobWait } from './search/index.js'

// Middleware around enqueues and handlers.

export type {
  DeliveryCall,
  EnqueueCall,
  EnqueuedRef,
  JobCall,
  JobChange,
  JobToEnqueue,
  Middleware,
  RunCall,
  ScheduleCall,
} from './base/index.js'

// Health, events and the doctor.

export type { EventName, HoldfastEvents, JobFacts, LeaseFacts, LockFacts, PermitFacts, RunFacts } from './base/index.js'
export { findingIds } from './base/index.js'
export type {
  AreaSummary,
  Diagnosis,
  Fact,
  Finding,
  FindingId,
  Fix,
  Severity,
} from './doctor/index.js'
export type { Health, HealthReason, HealthReasonCode, Holder } from './postgres/index.js'

// Types that all modules share: names, durations, handles, transactions that the caller passes, and errors.

export type {
  Duration,
  DurationText,
  ErrorDetails,
  Handle,
  HoldfastErrorCode,
  Instant,
  Key,
  TemporalDuration,
  TemporalInstant,
} from './base/index.js'
export { ClosedError, DrainingError, HoldfastError, UsageError } from './base/index.js'
export type {
  BlockingSession,
  CallerClient,
  CallerSql,
  CallerTransaction,
  Connection,
  ConnectionTarget,
  DrizzleTransaction,
  HandlerTransaction,
  HeldWork,
  KnexTransaction,
  KyselyTransaction,
  LibraryTransaction,
  MikroOrmTransaction,
  OpenTransaction,
  PgClient,
  PgPool,
  PgPoolClient,
  PostgresJs,
  PostgresJsExecutor,
  PrismaTransaction,
  ReadOnlyReason,
  Register,
  Transaction,
  TransactionOption,
  TypeOrmManager,
  TypeOrmRunner,
  TypeOrmTransaction,
  UnavailableReason,
} from './postgres/index.js'
export {
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  HostsClient,
  IsolationLevelError,
  KeyCollisionError,
  LockTableFullError,
  LoginRefusedError,
  MigrationBlockedError,
  MigrationFailedError,
  PermissionError,
  ReadOnlyError,
  SchemaVersionError,
  SessionLocksUnavailableError,
  StaleFenceError,
  TooManyConnectionsError,
} from './postgres/index.js'
