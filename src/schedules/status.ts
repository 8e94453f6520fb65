import type { RecordedError } from '../base/index.js'
import type { GivenRule } from '../cron/index.js'

/** A schedule, as a look at the database shows it. */
export interface ScheduleStatus {
  readonly name: string
  /** The rule in force: that of an operator, or else that of the code. */
  readonly rule: GivenRule
  /** The rule that the code says. */
  readonly codeRule: GivenRule
  /** The rule that an operator has set. */
  readonly override: GivenRule | undefined
  readonly pausedAt: Date | undefined
  /** Undefined when the rule has no more ticks, or it is paused. */
  readonly nextAt: Date | undefined
  /** The instances that have it in their code and live, with the rule that they have there. None: nobody runs it. */
  readonly members: readonly { readonly instance: string; readonly rule: GivenRule }[]
}

/** A run, as a look at the database shows it. */
export interface PastRun {
  readonly kind: 'run'
  readonly tick: Date
  /** Lost: its instance died, and none has taken it over or recorded that yet. */
  readonly state: 'waiting' | 'running' | 'lost' | 'done' | 'failed' | 'cancelled' | 'broken'
  /** Whether it was asked for beside the rule. */
  readonly extra: boolean
  readonly instance: string | undefined
  readonly attempt: number
  readonly startedAt: Date | undefined
  readonly endedAt: Date | undefined
  readonly error: RecordedError | undefined
  readonly log: readonly string[]
}

/** Neighbouring ticks without a run, and the reason that they have in common. */
export interface PastGap {
  readonly kind: 'gap'
  readonly first: Date
  readonly last: Date
  readonly ticks: number
  readonly reason: 'paused' | 'overlap' | 'missed' | 'no instance' | 'limit'
}

export interface FoundRow {
  readonly key: string
  readonly name: string
  readonly rule: string
  readonly override: string | null
  readonly paused_at: Date | null
  readonly late: number
  readonly next_ms: number | null
  readonly now_ms: number
  readonly members: string | null
  readonly manned_ms: number | null
}

export interface PastRow {
  readonly at: Date
  readonly state: PastRun['state'] | null
  readonly extra: boolean
  readonly instance: string | null
  readonly attempt: number
  readonly started_at: Date | null
  readonly ended_at: Date | null
  readonly error: string | null
  readonly log: string[] | null
  readonly last_at: Date
  readonly ticks: string
  readonly reason: PastGap['reason']
}

function givenOf(text: string): GivenRule {
  const { at, ...rule } = JSON.parse(text) as GivenRule & { at?: string }
  return at === undefined ? rule : { at: new Date(at) }
}

export function statusOf(row: FoundRow): ScheduleStatus {
  const members: { instance: string; rule: string }[] = row.members === null ? [] : JSON.parse(row.members)
  return {
    name: row.name,
    rule: givenOf(row.override ?? row.rule),
    codeRule: givenOf(row.rule),
    override: row.override === null ? undefined : givenOf(row.override),
    pausedAt: row.paused_at ?? undefined,
    nextAt: row.next_ms === null || row.paused_at !== null ? undefined : new Date(row.next_ms),
    members: members.map(({ instance, rule }) => ({ instance, rule: givenOf(rule) })),
  }
}

export function pastOf(row: PastRow): PastRun | PastGap {
  if (row.state === null) {
    return { kind: 'gap', first: row.at, last: row.last_at, ticks: Number(row.ticks), reason: row.reason }
  }
  return {
    kind: 'run',
    tick: row.at,
    state: row.state,
    extra: row.extra,
    instance: row.instance ?? undefined,
    attempt: row.attempt,
    startedAt: row.started_at ?? undefined,
    endedAt: row.ended_at ?? undefined,
    error: row.error === null ? undefined : JSON.parse(row.error),
    log: row.log ?? [],
  }
}
