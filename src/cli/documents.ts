/**
 * Types for the documents that commands print with `--json`, and for the lines that commands print with `--jsonl`. The
 * build generates the package's JSON schemas from these types and uses the doc comments as descriptions
 * (scripts/schemas.ts). Every number in a schema is an integer, unless its doc comment has the tag `@fraction`.
 */

import type { AuditEntry, RevokedPermit } from '../acts/index.js'
import type { JobMeta, JobProgress, JobState, LogLine, RecordedError } from '../base/index.js'
import type { Counts, DemoEventKind, DemoOutcome, Verdict } from '../demo/index.js'
import type { Diagnosis, Finding, FindingId } from '../doctor/index.js'
import type { FailedAttempt, ImportResult, ImportSource, JobStatus } from '../jobs/index.js'
import type {
  Change,
  ContendedName,
  Cycle,
  DeliveryDetails,
  FleetInstance,
  InstanceWork,
  LastError,
  LimitDetails,
  ObservedDelivery,
  ObservedJob,
  ObservedLease,
  ObservedLimit,
  ObservedLock,
  ObservedQueue,
  Overview,
  Participant,
  TrendCounts,
  Wait,
} from '../observe/index.js'
import type { PastGap, PastRun, ScheduleStatus, UpsertOutcome } from '../schedules/index.js'

/** The document that each command prints with `--json`, by command name. */
export interface Documents {
  /** Names that sessions hold as locks, and names that sessions wait for. */
  'lock-ls': readonly ObservedLock[]
  /** One name, the sessions that hold it, and the sessions that wait for it. */
  'lock-show': LockShow
  /** Result of `lock release`. */
  'lock-release': {
    /** Holders that received a request to release the name. */
    readonly asked: readonly ObservedLock[]
  }
  /** Result of `lock break`. */
  'lock-break': {
    /** Names that the ended sessions held. */
    readonly ended: readonly ObservedLock[]
  }
  /** Names that are leased, or that are still blocked by a minimum hold after their lease was released. */
  'lease-ls': readonly ObservedLease[]
  /** One name and its lease. */
  'lease-show': LeaseShow
  /** Result of `lease expire`. */
  'lease-expire': {
    /** The lease that the command ended. Null if the name had no lease. */
    readonly expired: ObservedLease | null
  }
  /** Limits whose permits are in use, and rates that are partly or fully spent. */
  'limit-ls': readonly ObservedLimit[]
  /** A name's permits, the calls that wait for permits, and the name's rate. */
  'limit-show': LimitShow
  /** Result of `limit reset`. */
  'limit-reset': {
    /** Permits that the command revoked. */
    readonly ended: readonly RevokedPermit[]
    /** Whether the command reset the rate limit. False if the full burst was already available. */
    readonly refilled: boolean
  }
  /** Deliveries that are running or have a recorded result. */
  'delivery-ls': readonly ObservedDelivery[]
  /** One delivery and its result. Null if the delivery is unknown. */
  'delivery-show': DeliveryShow | null
  /** Result of `delivery forget`. */
  'delivery-forget': {
    /**
     * The key whose delivery the command deleted. The handler will run again for the next delivery with this key. Null
     * if no delivery was deleted.
     */
    readonly forgotten: string | null
  }
  /** Jobs. */
  'job-ls': readonly ObservedJob[]
  /** Ended jobs, failures and times of each kind or queue. */
  'job-stats': readonly JobStatsRow[]
  /** One job. Null if the job does not exist. */
  'job-show': JobShow | null
  /** The last lines that the handler of a job has logged. */
  'job-logs': readonly LogLine[]
  /** Result of `job add`. */
  'job-add': {
    /** ID of the job. */
    readonly id: number
  }
  /** Jobs that `job import` moved from a different library, or would move with `--dry-run`. */
  'job-import': JobImport
  /** Result of `job retry`. */
  'job-retry': {
    /** IDs of the jobs that the command made available to run. */
    readonly retried: readonly number[]
  }
  /** Result of `job cancel`. */
  'job-cancel': {
    /** IDs of the jobs that were cancelled or received a request to stop. */
    readonly cancelled: readonly number[]
  }
  /** Result of `job send`. */
  'job-send': {
    /** ID of the job that receives the event. Empty if the job has ended or does not exist. */
    readonly sent: readonly number[]
  }
  /** Result of `job discard`. */
  'job-discard': {
    /** IDs of the failed jobs that were discarded. */
    readonly discarded: readonly number[]
  }
  /** Result of `job update`. */
  'job-update': {
    /** ID of the changed job. Null if the job was not changed. */
    readonly updated: number | null
  }
  /** One job after each change, one line per change. */
  'job-watch': JobShow
  /** Ended jobs, one line per job. */
  'job-export': readonly ExportedJob[]
  /** Changes in the fleet, latest first. */
  changes: readonly Change[]
  /** Queues. */
  'queue-ls': readonly ObservedQueue[]
  /** Result of `queue pause`. */
  'queue-pause': {
    /** Name of the paused queue. */
    readonly paused: string
  }
  /** Result of `queue resume`. */
  'queue-resume': {
    /** Name of the resumed queue. Null if the queue was not paused. */
    readonly resumed: string | null
  }
  /** A namespace's schedules. */
  'schedule-ls': readonly ScheduleStatus[]
  /** One schedule and its past runs. */
  'schedule-show': ScheduleShow
  /** Result of `schedule set`. */
  'schedule-set': {
    /** Name of the schedule. */
    readonly schedule: string
    /** Whether the schedule was created, changed or already the same. */
    readonly outcome: UpsertOutcome
  }
  /** Result of `schedule rm`. */
  'schedule-rm': {
    /** Name of the removed schedule. Null if there was no such stored schedule. */
    readonly removed: string | null
  }
  /** Result of `schedule run`. */
  'schedule-run': {
    /** Tick that identifies the requested run. Null if the schedule does not allow another run now, and with `--input`. */
    readonly tick: Date | null
    /** ID of the job that was enqueued with `--input`. */
    readonly job?: number
  }
  /** Result of `schedule pause`. */
  'schedule-pause': {
    /** Name of the paused schedule. */
    readonly paused: string
  }
  /** Result of `schedule resume`. */
  'schedule-resume': {
    /** Name of the resumed schedule. Null if the schedule was not paused. */
    readonly resumed: string | null
  }
  /** Result of `schedule override`. */
  'schedule-override': {
    /** Name of the schedule. */
    readonly schedule: string
    /** Rule that applies now. */
    readonly rule: ScheduleStatus['rule']
    /** Whether an operator set this rule. False if the rule comes from the code. */
    readonly overridden: boolean
  }
  /** A rule's next ticks. */
  'schedule-next': readonly UpcomingTick[]
  /** Instances, with the number of names that each instance holds and waits for. */
  'instance-ls': readonly FleetInstance[]
  /** One instance, and everything that it holds, waits for or is running. Null if the instance is unknown. */
  'instance-show': InstanceShow | null
  /** Result of `instance drain`. */
  'instance-drain': {
    /** ID of the instance. */
    readonly instance: string
    /** Name of the instance. Null if the instance is unknown. */
    readonly name: string | null
    /**
     * `asked`: the instance has not received the request yet. `draining`: the instance is finishing its work and starts
     * no new work. `drained`: all of the instance's work has ended, or the instance closed cleanly. `lost`: the
     * instance does not exist or no longer responds.
     */
    readonly state: 'asked' | 'draining' | 'drained' | 'lost'
  }
  /** Instances, sessions and jobs that wait for each other. */
  graph: GraphDocument
  /** Overview of instances, names, schedules, queues and recent failures. With `--jsonl`, one line for each refresh. */
  top: TopDocument
  /** The dashboard that the command serves. */
  dashboard: {
    /** Address of the dashboard. */
    readonly url: string
    /** Whether the dashboard rejects every action. */
    readonly readOnly: boolean
  }
  /** Migrations that the command applied to the schema, or would apply. */
  migrate: MigrateDocument
  /** Acts of the dashboard's visitors and of the MCP server, latest first. */
  'audit-ls': readonly AuditEntry[]
  /** The doctor's findings. */
  doctor: DoctorDocument
  /** Result of a demo run. */
  demo: DemoOutcome
  /** The PostgreSQL server that the command runs for development. */
  dev: {
    /** Address of the server, with its password. */
    readonly url: string
    /** Port of the server. */
    readonly port: number
    /** Data directory. */
    readonly dataDir: string
  }
  /** The database's throughput and latency, measured from this machine. */
  bench: readonly Measured[]
}

/** The lines that a command prints with `--jsonl`, if these lines differ from the document's rows. */
export interface JsonLines {
  readonly graph: GraphLine
  readonly top: TopDocument
  readonly migrate: MigrationLine
  readonly doctor: Finding
  readonly demo: DemoLine
}

/** One line of `--jsonl` output. If the document is a list, the line is a row of the document. */
export type LineOf<Name extends keyof Documents> = Name extends keyof JsonLines
  ? JsonLines[Name]
  : Documents[Name] extends readonly (infer Row)[]
    ? Row
    : Documents[Name]

/** Overview of one database, or the overviews of several databases. */
export type TopDocument = Overview | OverviewOfSeveral

/** Overviews of several databases. */
export interface OverviewOfSeveral {
  /** The databases, in the order of the `--url` options. */
  readonly databases: readonly DatabaseOverview[]
}

/** Overview of one of several databases. */
export interface DatabaseOverview {
  /** Name of the database. */
  readonly name: string
  /** Overview of the database. Null if the database is unavailable. */
  readonly overview: Overview | null
  /** Reason why the database is unavailable. Null if it is available. */
  readonly error: string | null
}

/** A name as it appears in commands' output. */
export interface Name {
  /** The name. Null for a key that is not registered. */
  readonly name: string | null
  /** Namespace of the name. Null for a key that is not registered. */
  readonly namespace: string | null
  /**
   * 64-bit key of the name, in decimal.
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
}

export interface LockShow extends Name {
  /** Mode in which the name is held. */
  readonly state: 'exclusive' | 'shared' | 'leased' | 'free'
  /** Sessions that hold the name. */
  readonly holders: readonly ObservedLock[]
  /** Sessions that wait for the name. */
  readonly waiters: readonly ObservedLock[]
  /** Lease of the name. Null if there is none. */
  readonly lease: ObservedLease | null
}

export interface LeaseShow extends Name {
  /**
   * Mode in which the name is held. `min-hold`: the lease was released, but its minimum hold still blocks the name.
   * `locked`: a session holds it as a lock.
   */
  readonly state: 'leased' | 'min-hold' | 'locked' | 'free'
  /** Lease of the name. Null if there is none. */
  readonly lease: ObservedLease | null
}

export interface LimitShow {
  /** The name. */
  readonly name: string
  /** Namespace of the name. */
  readonly namespace: string
  /** Limit on the number of permits at the same time. */
  readonly permits: LimitPermits
  /** State of the name's rate limit. Null if the full burst is available. */
  readonly rate: LimitRate | null
}

/** Limit on the number of permits at the same time. */
export interface LimitPermits extends Omit<LimitDetails, 'rate'> {
  /**
   * 64-bit key of the permits, in decimal.
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
}

/** Limit on the number of permits in a period. */
export interface LimitRate {
  /**
   * 64-bit key of the rate, in decimal.
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Time when the full burst will be available again. */
  readonly refilledAt: Date
  /** Milliseconds until `refilledAt`. */
  readonly refilledInMs: number
}

/** A delivery and its result. */
export interface DeliveryShow extends Omit<DeliveryDetails, 'value' | 'body'> {
  /**
   * The delivery's recorded result or failure. Null if nothing was recorded, or if the recorded value is larger than 64
   * KiB.
   */
  readonly value: unknown
  /** Binary part of the result in base64, such as a response body. At most 64 KiB are included. */
  readonly body: string | null
}

/** Ended jobs of a kind or a queue in the last hours. */
export interface JobStatsRow extends TrendCounts {
  /** Whether the row describes a kind or a queue. */
  readonly by: 'kind' | 'queue'
  /** Name of the kind or the queue. */
  readonly name: string
  /** Namespace of the jobs. Null if the name of their queue is not known. */
  readonly namespace: string | null
  /**
   * Average number of jobs per minute that are done.
   *
   * @fraction
   */
  readonly perMinute: number
  /**
   * Share of the attempts that failed, from 0 to 1. Null if there were no attempts.
   *
   * @fraction
   */
  readonly failureShare: number | null
  /** Error of the latest failed attempt or job of the kind. Null if none failed, and for queues. */
  readonly lastError: LastError | null
}

/** An ended job, as `job export` prints it. */
export interface ExportedJob {
  /** ID of the job. */
  readonly id: number
  /** Name of the job definition. */
  readonly kind: string
  /** Name of the queue. Null if the name is not registered. */
  readonly queue: string | null
  /** Namespace of the queue. Null if the name of the queue is not registered. */
  readonly namespace: string | null
  /** State of the job. */
  readonly state: JobState
  /** Priority. Larger numbers run first. */
  readonly priority: number
  /** Time when the job was enqueued. */
  readonly enqueuedAt: Date
  /** Time of the last claim. Null if the job was never claimed. */
  readonly claimedAt: Date | null
  /** Time when the job ended. */
  readonly endedAt: Date
  /** Number of failed attempts. */
  readonly failed: number
  /** Number of workers that died while holding the job. */
  readonly crashes: number
  /** The input, as any JSON value. */
  readonly input: unknown
  /** Value that the handler returned, as any JSON value. */
  readonly result: unknown
  /** Error that ended the job. Null if there is none. */
  readonly error: RecordedError | null
  /** JSON object that was stored with the job. */
  readonly meta: JobMeta
  /** Last progress that the handler reported. */
  readonly progress: JobProgress | null
  /** The last 100 lines that the handler logged. */
  readonly log: readonly LogLine[]
  /** The last 20 attempts that failed or crashed. */
  readonly failures: readonly FailedAttempt[]
}

/** A job's status. */
export interface JobShow extends Omit<JobStatus, 'result'> {
  /** The handler's return value, as JSON. Missing if the handler returned nothing. */
  readonly result?: unknown
}

/** Jobs that were moved from a different library, and jobs that remain in that library. */
export interface JobImport extends ImportResult {
  /** Library from which the jobs were moved. */
  readonly from: ImportSource
  /** Whether the command was run with `--dry-run` and changed nothing. */
  readonly dryRun: boolean
}

/** A schedule and its past runs. */
export interface ScheduleShow extends ScheduleStatus {
  /** The schedule's runs and gaps, newest first. */
  readonly history: readonly (PastRun | PastGap)[]
}

/** An instance, and everything that it holds, waits for or is running. */
export interface InstanceShow extends Omit<FleetInstance, 'jobs'> {
  /** Names that the instance holds as locks. */
  readonly holds: readonly ObservedLock[]
  /** Names that the instance waits for. */
  readonly waits: readonly ObservedLock[]
  /** Names that the instance holds as leases. */
  readonly leases: readonly ObservedLease[]
  /** Permits that the instance holds or waits for. At most 1,000. */
  readonly permits: InstanceWork['permits']
  /** Elections that the instance leads. At most 1,000. */
  readonly leads: InstanceWork['leads']
  /** Jobs that the instance is running. At most 1,000. */
  readonly jobs: readonly RunningJob[]
  /** Schedule runs that are in progress on the instance. At most 1,000. */
  readonly runs: InstanceWork['runs']
  /** Deliveries that the instance is running. Only the latest 20,000 deliveries are searched. */
  readonly deliveries: readonly ObservedDelivery[]
  /** Number of deliveries that were searched, the latest first. Null if all deliveries were searched. */
  readonly searchedDeliveries: number | null
}

/** A job that an instance is running. */
export interface RunningJob extends Omit<InstanceWork['jobs'][number], 'id'> {
  /** ID of the job. */
  readonly id: number
}

export interface GraphDocument {
  /** Participants that wait for a name, or hold a name that other participants wait for. */
  readonly participants: readonly Participant[]
  /** Names that participants wait for. */
  readonly names: readonly ContendedName[]
  /** Cycles of participants that wait for each other. Confirmed deadlocks come before possible deadlocks. */
  readonly cycles: readonly Cycle[]
  /** Participants that block other participants and do not wait themselves. A cycle is represented by one of its participants. */
  readonly roots: readonly Root[]
  /** Whether the document omits some names that participants wait for. */
  readonly isPartial: boolean
}

/** A participant that blocks other participants. */
export interface Root {
  /** ID of the participant. */
  readonly participant: string
  /** Names that the participant holds and that other participants wait for. */
  readonly blocks: readonly BlockedName[]
}

/** A name that other participants wait for. */
export interface BlockedName {
  /** ID that identifies the name within this document. */
  readonly name: string
  /**
   * Commands that unblock the waiting participants, starting with the least disruptive. Empty if the only remedy is to
   * wait or to start a worker.
   */
  readonly remedies: readonly string[]
}

/** A participant that waits for a name. */
export interface GraphLine
  extends Pick<ContendedName, 'kind' | 'key' | 'namespace' | 'label' | 'queue'>,
    Pick<Wait, 'mode' | 'since' | 'forMs' | 'requests'> {
  /** Participant that waits: the ID of an instance, or a label such as `session 4711` or `job 17`. */
  readonly waiter: string
  /** Name of the waiting instance. Null for other participants. */
  readonly waiterName: string | null
  /** Participants that the waiter waits for: the name's holders, or the participant that is ahead in the queue. */
  readonly blockers: readonly string[]
  /** Whether this wait is part of a confirmed deadlock. */
  readonly isDeadlocked: boolean
}

export interface MigrateDocument {
  /** Database schema that contains Holdfast's tables. */
  readonly schema: string
  /** Version of the last applied migration. */
  readonly version: number
  /** With `--dry-run` or `--check`: migrations that have not been applied yet. */
  readonly pending?: readonly MigrationStep[]
  /** Without `--dry-run` and `--check`: migrations that the command applied. */
  readonly applied?: readonly MigrationStep[]
  /** Modules whose SQL functions the command replaced, or would replace with `--dry-run` or `--check`. */
  readonly functions: readonly string[]
  /** SQL statements that grant the given roles their privileges. With `--dry-run` or `--check`, the command does not run them. */
  readonly grants: readonly string[]
}

/** A migration. */
export interface MigrationStep {
  /** Version of the migration. */
  readonly version: number
  /** Name of the migration. */
  readonly name: string
}

/** A migration, or the SQL functions of one module. */
export interface MigrationLine {
  /** Version of the migration, or `functions` for the SQL functions of a module. */
  readonly version: number | 'functions'
  /** Name of the migration or of the module. */
  readonly name: string
}

/** The doctor's findings, and the fixes that it tried. */
export interface DoctorDocument extends Diagnosis {
  /** With `--fix`: findings that the doctor tried to fix. */
  readonly fixed: readonly FixAttempt[]
}

/** A finding that the doctor tried to fix. */
export interface FixAttempt {
  /** Kind of the finding. */
  readonly id: FindingId
  /** Subject of the finding, such as a session, a queue or a setting. */
  readonly subject: string | null
  /** Reason why the fix failed. Null if the fix succeeded. */
  readonly failure: string | null
}

/** One of the demo's events. */
export interface DemoLine {
  /**
   * Seconds since the first line.
   * @fraction
   */
  readonly seconds: number
  /** Kind of event. */
  readonly event: DemoEventKind
  /** Instance that the event concerns. */
  readonly instance: string | null
  /** Items of work that the event concerns, such as `invoice 42`. */
  readonly works: readonly string[]
  /** Duration in milliseconds. */
  readonly ms: number | null
  /** Result of a proof. Null if the event is not a proof. */
  readonly proof: readonly Verdict[] | null
  /** Work of a company. Null if the event is neither `work` nor `without`. */
  readonly counts: Counts | null
  /** Addresses of the demo. Null if the event is not `started`. */
  readonly urls: {
    /** Address of the dashboard. */
    readonly dashboard: string
    /** Address of the database, with its password. Without the password if `--url` is given without `--show-url`. */
    readonly database: string
  } | null
  /** Short title of the event. */
  readonly title: string
  /** Description of the event. */
  readonly text: string
}

/** A measured operation. */
export interface Measured extends Sample {
  /** Name of the operation. */
  readonly name: string
  /** Unit of the throughput, such as `pairs`. A pair is one acquire and the corresponding release. */
  readonly unit: string
  /** Number of concurrent callers, or number of jobs per statement. */
  readonly atOnce: number
  /**
   * Median duration of the operation for one caller, divided by the median duration of a plain round trip to the database. Null if one of
   * the two medians is missing.
   * @fraction
   */
  readonly roundTrips: number | null
}

/** An operation's throughput and latency. */
export interface Sample {
  /** Operations per second. */
  readonly perSecond: number
  /**
   * Median duration of an operation, in milliseconds.
   * @fraction
   */
  readonly p50Ms: number | null
  /**
   * 99th percentile of the duration, in milliseconds.
   * @fraction
   */
  readonly p99Ms: number | null
}

/** A future tick. */
export interface UpcomingTick {
  /** The tick. */
  readonly at: Date
  /** Local time of the tick in the rule's time zone. */
  readonly local: string
  /** Offset of the time zone from UTC at the tick, such as `+01:00`. */
  readonly offset: string
  /** The time zone. */
  readonly timezone: string
  /** Effect of a clock change on the tick. Null if no clock change affects the tick. */
  readonly note: string | null
}
