import type { ScheduleRule } from '../cron/index.js'

export type RunState = 'waiting' | 'running' | 'lost' | 'done' | 'failed' | 'cancelled' | 'broken'
export type GapReason = 'paused' | 'overlap' | 'missed' | 'no instance' | 'limit'

/** A schedule and its rule. */
export interface ScheduleName {
  /**
   * 64-bit key of the schedule, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the schedule. */
  readonly namespace: string
  /** Name of the schedule. */
  readonly name: string
  /** Rule that is currently in effect. Null if a newer version of Holdfast wrote the rule. */
  readonly rule: ScheduleRule | null
  /** Whether an operator set the rule. */
  readonly overridden: boolean
}

export interface ObservedSchedule extends ScheduleName {
  /** Whether the schedule is stored in the database, so that no instance needs it in its code. */
  readonly stored: boolean
  readonly pausedAt: Date | null
  /** Next tick, which may be overdue. Null if the rule has no further ticks, or the schedule is paused. */
  readonly nextAt: Date | null
  /** Number of live instances whose code defines the schedule. */
  readonly members: number
  /** Number of current runs. */
  readonly running: number
  /** Finished run with the latest tick. */
  readonly last: EndedRun | null
}

export interface EndedRun {
  readonly tick: Date
  readonly state: 'done' | 'failed' | 'cancelled' | 'broken'
  readonly extra: boolean
  readonly instance: string | null
  readonly instanceName: string | null
  readonly attempt: number
  /** Delay in milliseconds from the tick to the start of the last attempt. Null if no attempt started. */
  readonly lateMs: number | null
  /** Milliseconds from the start of the last attempt to its end. */
  readonly tookMs: number | null
}

/** A range of ticks that have no run, and the reason. */
export interface ObservedGap {
  readonly first: Date
  readonly last: Date
  readonly ticks: number
  readonly reason: GapReason
}
