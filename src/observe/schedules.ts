import type { RecordedError } from '../base/index.js'
import {
  type ClockChange,
  clockChanges,
  type LocalTick,
  type RuleOptions,
  ruleFromText,
  type TickRule,
} from '../cron/index.js'
import { arrayLiteral, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { dateOf, msOf } from './dates.js'
import type { EndedRun, GapReason, ObservedSchedule, RunState } from './schedule-rows.js'
import { buildTickTimeline, type TickTimeline, type TickTimelineAnswer, tickTimelineSpan } from './tick-timeline.js'

export interface ScheduleFilter {
  readonly namespace?: string | undefined
  /** Schedules whose name holds this text, in any capitals. */
  readonly search?: string | undefined
  /** Those of this name. */
  readonly name?: string | undefined
  /** How many at most. Default 50. */
  readonly limit?: number | undefined
  /** After so many others. */
  readonly offset?: number | undefined
}

/** Schedules, as anybody may look at them. */
export interface ObservedSchedules {
  /** Those asked for, by namespace and name. */
  readonly rows: readonly ObservedSchedule[]
  /** How many there are. */
  readonly count: number
}

export interface ScheduleMember {
  readonly instance: string
  readonly host: string | null
  readonly osPid: number | null
  /** The rule that its code says. */
  readonly rule: RuleOptions | null
  readonly since: Date
}

export interface ObservedRun {
  readonly tick: Date
  readonly extra: boolean
  /** Lost: its instance died, and none has taken it over or recorded that yet. */
  readonly state: RunState
  readonly instance: string | null
  readonly host: string | null
  readonly osPid: number | null
  readonly fence: string | null
  readonly attempt: number
  /** How many instances died while they ran it. */
  readonly crashes: number
  readonly late: number | null
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  readonly stopping: string | null
  readonly error: { readonly name: string; readonly message: string } | null
  /** How many lines it has logged. */
  readonly lines: number
}

export interface ObservedGap {
  readonly first: Date
  readonly last: Date
  readonly ticks: number
  readonly reason: GapReason
}

export interface UpcomingTick extends LocalTick {
  readonly at: Date
}

/** All about one schedule. */
export interface ScheduleDetails {
  readonly key: string
  readonly rule: RuleOptions | null
  readonly codeRule: RuleOptions | null
  readonly overridden: boolean
  readonly pausedAt: Date | null
  /** The tick that was settled last. */
  readonly settledAt: Date | null
  readonly nextAt: Date | null
  readonly overlap: 'skip' | 'queue' | 'allow' | 'replace'
  readonly missed: 'skip' | 'latest' | 'all'
  /** For `all`: how many of them run late, at most. */
  readonly late: number
  readonly reruns: boolean
  readonly members: readonly ScheduleMember[]
  /** Which rules it had, the present one first. */
  readonly rules: readonly { readonly since: Date; readonly rule: RuleOptions | null }[]
  readonly runs: readonly ObservedRun[]
  readonly gaps: readonly ObservedGap[]
  /** Its next ticks, as the rule says them; none while it is paused. */
  readonly upcoming: readonly UpcomingTick[]
  /** When the clocks of its zone change next, within a year. */
  readonly clockChange: ClockChange | null
  /** While it is paused: how many ticks have passed that are not written down yet. */
  readonly unrecordedTicks: number
}

interface RawScheduleRow extends Omit<ObservedSchedule, 'rule' | 'pausedAt' | 'nextAt' | 'last'> {
  rule: string
  pausedMs: number | null
  nextMs: number | null
  last:
    | (Omit<EndedRun, 'tick' | 'late' | 'took'> & { tickMs: number; lateMs: number | null; tookMs: number | null })
    | null
}

interface RawScheduleDetails
  extends Omit<
    ScheduleDetails,
    | 'rule'
    | 'codeRule'
    | 'pausedAt'
    | 'settledAt'
    | 'nextAt'
    | 'members'
    | 'rules'
    | 'runs'
    | 'gaps'
    | 'upcoming'
    | 'clockChange'
    | 'unrecordedTicks'
  > {
  nowMs: number
  rule: string
  codeRule: string
  pausedMs: number | null
  settledMs: number | null
  nextMs: number | null
  members: { instance: string; host: string | null; osPid: number | null; rule: string; sinceMs: number }[] | null
  rules: { sinceMs: number; rule: string }[] | null
  runs:
    | (Omit<ObservedRun, 'tick' | 'late' | 'startedAt' | 'endedAt' | 'error' | 'lines'> & {
        tickMs: number
        lateMs: number | null
        startedMs: number | null
        endedMs: number | null
        errorName: string | null
        errorMessage: string | null
        lines: number | null
      })[]
    | null
  gaps: { firstMs: number; lastMs: number; ticks: number; reason: GapReason }[] | null
}

const yearMs = 366 * 86_400_000
const upcomingCount = 12
/** So many runs and gaps of one schedule are told. */
const maxRuns = 60
/** A ribbon tells of so many schedules at once. */
const maxTimelineSchedules = 20
/** Of a schedule that ticks more often in the time of a ribbon, so many ticks of each step are read. */
const maxSparseTicks = 300
const maxPerStep = 12

/** Schedules, as anybody may look at them, in all namespaces. Part of the `Observer`. */
export class SchedulesObserver {
  readonly #reader: Reader
  readonly #sql: Record<'schedules' | 'schedule' | 'run', Statement>
  readonly #timelineSql: Record<'tick_timeline', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./schedules.sql', import.meta.url), schema)
    this.#timelineSql = loadStatements(new URL('./tick-timeline.sql', import.meta.url), schema)
  }

  /**
   * Schedules by name: when they tick, and how their last run ended.
   *
   * @example
   * const { rows, count } = await observer.schedules.list({ search: 'report' })
   */
  async list(only: ScheduleFilter = {}): Promise<ObservedSchedules> {
    const { rows, count } = await this.#list(only)
    return { rows: rows.map(readSchedule), count }
  }

  /**
   * All about one schedule; null where there is none.
   *
   * @example
   * const invoices = await observer.schedules.find('billing', 'invoices')
   */
  async find(namespace: string, name: string): Promise<ScheduleDetails | null> {
    const found = await this.#read<RawScheduleDetails>(this.#sql.schedule, [namespace, name, maxRuns])
    return found && readDetails(found)
  }

  /**
   * The error of one run as it was recorded, and what its handler logged; null where there is no such run.
   *
   * @example
   * const run = await observer.schedules.run('billing', 'invoices', tick)
   */
  async run(
    namespace: string,
    name: string,
    tick: Date,
    extra = false,
  ): Promise<{ error: RecordedError | null; log: readonly string[] } | null> {
    const found = await this.#read<{ error: RecordedError | null; log: string[] | null }>(this.#sql.run, [
      namespace,
      name,
      tick,
      extra,
    ])
    return found && { error: found.error, log: found.log ?? [] }
  }

  /**
   * Ticks along time: who won which, what has no run and why, and which come next. Of up to 20 schedules, over `minutes`
   * before now, in at most `steps` steps.
   *
   * @example
   * const { rows } = await observer.schedules.ribbon({ minutes: 60, steps: 80 })
   */
  async tickTimeline(
    only: ScheduleFilter & { readonly minutes: number; readonly steps: number },
  ): Promise<TickTimeline> {
    const { rows, count, nowMs } = await this.#list({
      ...only,
      limit: Math.min(maxTimelineSchedules, only.limit ?? maxTimelineSchedules),
    })
    const span = tickTimelineSpan(nowMs, only.minutes, only.steps)
    const listed = rows.map((row) => {
      const schedule = readSchedule(row)
      const rule = parseTickRule(row.rule)
      const expected = rule?.count(new Date(span.fromMs), new Date(nowMs)) ?? 0
      return { schedule, rule, nextMs: row.nextMs, isDense: expected > maxSparseTicks / 2 }
    })
    const found =
      listed.length === 0
        ? null
        : await this.#read<TickTimelineAnswer>(this.#timelineSql.tick_timeline, [
            arrayLiteral(listed.map(({ schedule }) => schedule.key)),
            arrayLiteral(listed.map(({ isDense }) => isDense)),
            span.fromMs,
            span.stepMs,
            span.pastSteps,
            maxSparseTicks,
            maxPerStep,
          ])
    return { ...buildTickTimeline(listed, found, span, { maxRead: maxSparseTicks, maxPerStep }), count }
  }

  async #list({ namespace, search, name, limit = 50, offset = 0 }: ScheduleFilter) {
    const values = [namespace ?? null, search || null, limit, offset, name ?? null]
    const found = await this.#read<{ rows: RawScheduleRow[]; count: number; nowMs: number }>(
      this.#sql.schedules,
      values,
    )
    return found!
  }

  async #read<Answer>({ text }: Statement, values: readonly unknown[]): Promise<Answer | null> {
    const [row] = await this.#reader.read<{ answer: Answer }>(text, values)
    return row?.answer ?? null
  }
}

function readSchedule({ rule, pausedMs, nextMs, last, ...same }: RawScheduleRow): ObservedSchedule {
  return {
    ...same,
    rule: parseGivenRule(rule),
    pausedAt: dateOf(pausedMs),
    nextAt: pausedMs === null ? dateOf(nextMs) : null,
    last: last && readLast(last),
  }
}

function readLast({ tickMs, lateMs, tookMs, ...same }: NonNullable<RawScheduleRow['last']>): EndedRun {
  return { ...same, tick: new Date(tickMs), late: msOf(lateMs), took: msOf(tookMs) }
}

function readDetails(found: RawScheduleDetails): ScheduleDetails {
  const { nowMs, rule, codeRule, pausedMs, settledMs, nextMs, members, rules, runs, gaps, ...same } = found
  const known = parseTickRule(rule)
  const isPaused = pausedMs !== null
  return {
    ...same,
    rule: parseGivenRule(rule),
    codeRule: parseGivenRule(codeRule),
    pausedAt: dateOf(pausedMs),
    settledAt: dateOf(settledMs),
    nextAt: isPaused ? null : dateOf(nextMs),
    members: (members ?? []).map(({ rule, sinceMs, ...member }) => ({
      ...member,
      rule: parseGivenRule(rule),
      since: new Date(sinceMs),
    })),
    rules: (rules ?? []).map(({ sinceMs, rule }) => ({ since: new Date(sinceMs), rule: parseGivenRule(rule) })),
    runs: (runs ?? []).map(readRun),
    gaps: (gaps ?? []).map(({ firstMs, lastMs, ...gap }) => ({
      first: new Date(firstMs),
      last: new Date(lastMs),
      ...gap,
    })),
    upcoming: isPaused || nextMs === null || !known ? [] : upcomingOf(known, nextMs),
    clockChange: nextClockChange(parseGivenRule(rule)?.timezone, nowMs),
    unrecordedTicks: isPaused && nextMs !== null && known ? known.count(new Date(nextMs - 1), new Date(nowMs)) : 0,
  }
}

function readRun(found: NonNullable<RawScheduleDetails['runs']>[number]): ObservedRun {
  const { tickMs, lateMs, startedMs, endedMs, errorName, errorMessage, lines, ...same } = found
  return {
    ...same,
    tick: new Date(tickMs),
    late: msOf(lateMs),
    startedAt: dateOf(startedMs),
    endedAt: dateOf(endedMs),
    error: errorMessage === null ? null : { name: errorName ?? 'Error', message: errorMessage },
    lines: lines ?? 0,
  }
}

function upcomingOf(rule: TickRule, nextMs: number): UpcomingTick[] {
  const coming: UpcomingTick[] = []
  for (let at: Date | null = new Date(nextMs); at && coming.length < upcomingCount; at = rule.next(at)) {
    coming.push({ at, ...rule.local(at) })
  }
  return coming
}

function nextClockChange(timezone: string | undefined, nowMs: number): ClockChange | null {
  if (!timezone || timezone === 'UTC') return null
  return clockChanges(timezone, new Date(nowMs), new Date(nowMs + yearMs))[0] ?? null
}

/** Null for one that a newer version has written. */
function parseTickRule(text: string): TickRule | null {
  try {
    return ruleFromText(text)
  } catch {
    return null
  }
}

/** A rule as it was given; null for one that a newer version has written. */
export function parseGivenRule(text: string): RuleOptions | null {
  if (!parseTickRule(text)) return null
  const { at, ...rule } = JSON.parse(text) as RuleOptions & { at?: string }
  return at === undefined ? rule : { at: new Date(at) }
}
