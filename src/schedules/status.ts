import type { LogLine, RecordedError } from '../base/index.js'
import { readScheduleRule, type ScheduleRule } from '../cron/index.js'

/** A schedule's status. */
export interface ScheduleStatus {
  /** Name of the schedule. */
  readonly name: string
  /** Rule in force: the operator's rule if there is one, otherwise `codeRule`. */
  readonly rule: ScheduleRule
  /** Rule in the code, or the rule that the last `upsert` set. */
  readonly codeRule: ScheduleRule
  /** Rule that an operator has set. Undefined if the rule is not overridden. */
  readonly override: ScheduleRule | undefined
  /** Time when the schedule was paused. Undefined if the schedule is not paused. */
  readonly pausedAt: Date | undefined
  /**
   * Time of the next tick. Undefined if the rule has no more ticks or the schedule is paused. Also undefined for a moment after
   * `upsert` has created a schedule, until an instance has computed its first tick.
   */
  readonly nextAt: Date | undefined
  /** Job that each tick of a stored schedule enqueues. Undefined if the schedule is in code. */
  readonly job:
    | {
        /** Queue of the job. */
        readonly queue: string
        /** Kind of the job. */
        readonly kind: string
        /** Input of the job. */
        readonly input: unknown
      }
    | undefined
  /**
   * Live instances that have the schedule in their code, each with its rule. If the list is empty, no instance runs the
   * schedule, unless it is a stored schedule.
   */
  readonly members: readonly {
    /** ID of the instance. */
    readonly instance: string
    /** Name of the instance. */
    readonly instanceName: string | undefined
    /** Rule in the instance's code. */
    readonly rule: ScheduleRule
  }[]
}

/** A tick's run. */
export interface PastRun {
  /** Marks a run. */
  readonly kind: 'run'
  /** Tick that the run belongs to. */
  readonly tick: Date
  /**
   * State of the run. `lost` means that the instance died, and no other instance has restarted the run or recorded a
   * result yet.
   */
  readonly state: 'waiting' | 'running' | 'lost' | 'done' | 'failed' | 'cancelled' | 'broken'
  /** Whether the run was requested with `schedules.run`, independently of the rule. */
  readonly extra: boolean
  /** ID of the instance that is running the tick, or that ran the tick last. */
  readonly instance: string | undefined
  /** Name of this instance. Undefined if the instance is no longer known. */
  readonly instanceName: string | undefined
  /** Number of times that the run has been started. */
  readonly attempt: number
  /** Time when the run started. */
  readonly startedAt: Date | undefined
  /** Time when the run ended. */
  readonly endedAt: Date | undefined
  /** Error with which the run failed. */
  readonly error: RecordedError | undefined
  /** The last 100 lines that the handler logged. */
  readonly log: readonly LogLine[]
  /** Job that the tick enqueued. Undefined if the schedule has a function. */
  readonly job: number | undefined
}

/** Consecutive ticks that have no run for the same reason. */
export interface PastGap {
  /** Marks a gap. */
  readonly kind: 'gap'
  /** First tick of the gap. */
  readonly first: Date
  /** Last tick of the gap. */
  readonly last: Date
  /** Number of ticks. */
  readonly ticks: number
  /** Reason why the ticks have no run. */
  readonly reason: 'paused' | 'overlap' | 'missed' | 'no instance' | 'limit'
}

export interface ScheduleRow {
  readonly key: string
  readonly name: string
  readonly rule: string
  readonly override: string | null
  readonly paused_ms: number | null
  readonly catch_up: number
  readonly job_kind: string | null
  readonly job_queue: string | null
  readonly job_input: string | null
  readonly next_ms: number | null
  /** Last settled tick. */
  readonly settled_ms: number | null
  readonly now_ms: number
  readonly members: string | null
  readonly first_member_ms: number | null
}

interface MemberDocument {
  readonly instance: string
  readonly instanceName: string | null
  readonly rule: string
}

export interface PastRow {
  readonly at_ms: number
  readonly state: PastRun['state'] | null
  readonly extra: boolean
  readonly instance: string | null
  readonly instance_name: string | null
  readonly attempt: number
  readonly started_ms: number | null
  readonly ended_ms: number | null
  readonly error: string | null
  readonly job: string | null
  readonly log: string | null
  readonly last_ms: number | null
  readonly ticks: string
  readonly reason: PastGap['reason']
}

export function statusOf(row: ScheduleRow): ScheduleStatus {
  const members: MemberDocument[] = row.members === null ? [] : JSON.parse(row.members)
  return {
    name: row.name,
    rule: readScheduleRule(row.override ?? row.rule),
    codeRule: readScheduleRule(row.rule),
    override: row.override === null ? undefined : readScheduleRule(row.override),
    pausedAt: dateOf(row.paused_ms),
    nextAt: row.paused_ms === null ? dateOf(row.next_ms) : undefined,
    job:
      row.job_kind === null
        ? undefined
        : { queue: row.job_queue ?? '?', kind: row.job_kind, input: JSON.parse(row.job_input!) },
    members: members.map(({ instance, instanceName, rule }) => ({
      instance,
      instanceName: instanceName ?? undefined,
      rule: readScheduleRule(rule),
    })),
  }
}

export function pastOf(row: PastRow): PastRun | PastGap {
  const at = new Date(row.at_ms)
  if (row.state === null) {
    return { kind: 'gap', first: at, last: new Date(row.last_ms!), ticks: Number(row.ticks), reason: row.reason }
  }
  return {
    kind: 'run',
    tick: at,
    state: row.state,
    extra: row.extra,
    instance: row.instance ?? undefined,
    instanceName: row.instance_name ?? undefined,
    attempt: row.attempt,
    startedAt: dateOf(row.started_ms),
    endedAt: dateOf(row.ended_ms),
    error: row.error === null ? undefined : JSON.parse(row.error),
    job: row.job === null ? undefined : Number(row.job),
    log: row.log === null ? [] : JSON.parse(row.log),
  }
}

function dateOf(ms: number | null): Date | undefined {
  return ms === null ? undefined : new Date(ms)
}
