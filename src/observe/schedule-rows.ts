import type { RuleOptions } from '../cron/index.js'

export type RunState = 'waiting' | 'running' | 'lost' | 'done' | 'failed' | 'cancelled' | 'broken'
export type GapReason = 'paused' | 'overlap' | 'missed' | 'no instance' | 'limit'

export interface ObservedSchedule {
  /** In decimal. */
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** The rule in force; null where a newer version of Holdfast has written it. */
  readonly rule: RuleOptions | null
  /** Whether the rule is an operator's. */
  readonly overridden: boolean
  readonly pausedAt: Date | null
  /** The next tick, which may be overdue; null when the rule has no more, or it is paused. */
  readonly nextAt: Date | null
  /** How many living instances have it in their code. */
  readonly members: number
  /** How many runs are under way. */
  readonly running: number
  /** The latest tick whose run has ended. */
  readonly last: EndedRun | null
}

export interface EndedRun {
  readonly tick: Date
  readonly state: 'done' | 'failed' | 'cancelled' | 'broken'
  readonly extra: boolean
  readonly instance: string | null
  readonly attempt: number
  /** How long after its tick its last attempt began. Null where it never did. */
  readonly late: number | null
  readonly took: number | null
}
