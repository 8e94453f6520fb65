import type { RecordedError } from '../base/index.js'
import { type ClockChange, clockChanges, type GivenRule, type LocalTick, ruleOf, type TickRule } from '../cron/index.js'
import { arrayOf, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { dateOf, msOf } from './dates.js'
import { type Ribbon, type RibbonFound, ribbonOf, spanOf } from './ribbon.js'
import type { EndedRun, GapReason, ObservedSchedule, RunState } from './schedule-rows.js'

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
  readonly rule: GivenRule | null
  readonly since: Date
}

export interface ScheduleRunSeen {
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

export interface ScheduleGapSeen {
  readonly first: Date
  readonly last: Date
  readonly ticks: number
  readonly reason: GapReason
}

export interface ComingTick extends LocalTick {
  readonly at: Date
}

/** All about one schedule. */
export interface ScheduleDetails {
  readonly key: string
  readonly rule: GivenRule | null
  readonly codeRule: GivenRule | null
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
  readonly rules: readonly { readonly since: Date; readonly rule: GivenRule | null }[]
  readonly runs: readonly ScheduleRunSeen[]
  readonly gaps: readonly ScheduleGapSeen[]
  /** Its next ticks, as the rule says them; none while it is paused. */
  readonly coming: readonly ComingTick[]
  /** When the clocks of its zone change next, within a year. */
  readonly clocks: ClockChange | null
  /** While it is paused: how many ticks have passed that are not written down yet. */
  readonly passed: number
}

interface FoundSchedule extends Omit<ObservedSchedule, 'rule' | 'pausedAt' | 'nextAt' | 'last'> {
  rule: string
  pausedMs: number | null
  nextMs: number | null
  last:
    | (Omit<EndedRun, 'tick' | 'late' | 'took'> & { tickMs: number; lateMs: number | null; tookMs: number | null })
    | null
}

interface FoundDetails
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
    | 'coming'
    | 'clocks'
    | 'passed'
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
    | (Omit<ScheduleRunSeen, 'tick' | 'late' | 'startedAt' | 'endedAt' | 'error' | 'lines'> & {
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
const comingTicks = 12
/** So many runs and gaps of one schedule are told. */
const mostRuns = 60
/** A ribbon tells of so many schedules at once. */
const mostOfRibbon = 20
/** Of a schedule that ticks more often in the time of a ribbon, so many ticks of each step are read. */
const mostSparse = 300
const mostOfStep = 12

/** Schedules, as anybody may look at them, in all namespaces. Part of the `Observer`. */
export class SchedulesObserver {
  readonly #reader: Reader
  readonly #sql: Record<'schedules' | 'schedule' | 'run', Statement>
  readonly #ribbonSql: Record<'ribbon', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./schedules.sql', import.meta.url), schema)
    this.#ribbonSql = loadStatements(new URL('./ribbon.sql', import.meta.url), schema)
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
    const found = await this.#ask<FoundDetails>(this.#sql.schedule, [namespace, name, mostRuns])
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
    const found = await this.#ask<{ error: RecordedError | null; log: string[] | null }>(this.#sql.run, [
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
  async ribbon(only: ScheduleFilter & { readonly minutes: number; readonly steps: number }): Promise<Ribbon> {
    const { rows, count, nowMs } = await this.#list({
      ...only,
      limit: Math.min(mostOfRibbon, only.limit ?? mostOfRibbon),
    })
    const span = spanOf(nowMs, only.minutes, only.steps)
    const listed = rows.map((row) => {
      const schedule = readSchedule(row)
      const rule = readable(row.rule)
      const expected = rule?.count(new Date(span.fromMs), new Date(nowMs)) ?? 0
      return { schedule, rule, nextMs: row.nextMs, isDense: expected > mostSparse / 2 }
    })
    const found =
      listed.length === 0
        ? null
        : await this.#ask<RibbonFound>(this.#ribbonSql.ribbon, [
            arrayOf(listed.map(({ schedule }) => schedule.key)),
            arrayOf(listed.map(({ isDense }) => isDense)),
            span.fromMs,
            span.stepMs,
            span.pastSteps,
            mostSparse,
            mostOfStep,
          ])
    return { ...ribbonOf(listed, found, span, { mostRead: mostSparse, mostOfStep }), count }
  }

  async #list({ namespace, search, name, limit = 50, offset = 0 }: ScheduleFilter) {
    const values = [namespace ?? null, search || null, limit, offset, name ?? null]
    const found = await this.#ask<{ rows: FoundSchedule[]; count: number; nowMs: number }>(this.#sql.schedules, values)
    return found!
  }

  async #ask<Answer>({ text }: Statement, values: readonly unknown[]): Promise<Answer | null> {
    const [row] = await this.#reader.read<{ answer: Answer }>(text, values)
    return row?.answer ?? null
  }
}

function readSchedule({ rule, pausedMs, nextMs, last, ...same }: FoundSchedule): ObservedSchedule {
  return {
    ...same,
    rule: givenOf(rule),
    pausedAt: dateOf(pausedMs),
    nextAt: pausedMs === null ? dateOf(nextMs) : null,
    last: last && readLast(last),
  }
}

function readLast({ tickMs, lateMs, tookMs, ...same }: NonNullable<FoundSchedule['last']>): EndedRun {
  return { ...same, tick: new Date(tickMs), late: msOf(lateMs), took: msOf(tookMs) }
}

function readDetails(found: FoundDetails): ScheduleDetails {
  const { nowMs, rule, codeRule, pausedMs, settledMs, nextMs, members, rules, runs, gaps, ...same } = found
  const known = readable(rule)
  const isPaused = pausedMs !== null
  return {
    ...same,
    rule: givenOf(rule),
    codeRule: givenOf(codeRule),
    pausedAt: dateOf(pausedMs),
    settledAt: dateOf(settledMs),
    nextAt: isPaused ? null : dateOf(nextMs),
    members: (members ?? []).map(({ rule, sinceMs, ...member }) => ({
      ...member,
      rule: givenOf(rule),
      since: new Date(sinceMs),
    })),
    rules: (rules ?? []).map(({ sinceMs, rule }) => ({ since: new Date(sinceMs), rule: givenOf(rule) })),
    runs: (runs ?? []).map(readRun),
    gaps: (gaps ?? []).map(({ firstMs, lastMs, ...gap }) => ({
      first: new Date(firstMs),
      last: new Date(lastMs),
      ...gap,
    })),
    coming: isPaused || nextMs === null || !known ? [] : comingOf(known, nextMs),
    clocks: changeOf(givenOf(rule)?.timezone, nowMs),
    passed: isPaused && nextMs !== null && known ? known.count(new Date(nextMs - 1), new Date(nowMs)) : 0,
  }
}

function readRun(found: NonNullable<FoundDetails['runs']>[number]): ScheduleRunSeen {
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

function comingOf(rule: TickRule, nextMs: number): ComingTick[] {
  const coming: ComingTick[] = []
  for (let at: Date | null = new Date(nextMs); at && coming.length < comingTicks; at = rule.next(at)) {
    coming.push({ at, ...rule.local(at) })
  }
  return coming
}

function changeOf(timezone: string | undefined, nowMs: number): ClockChange | null {
  if (!timezone || timezone === 'UTC') return null
  return clockChanges(timezone, new Date(nowMs), new Date(nowMs + yearMs))[0] ?? null
}

/** Null for one that a newer version has written. */
function readable(text: string): TickRule | null {
  try {
    return ruleOf(text)
  } catch {
    return null
  }
}

/** A rule as it was given; null for one that a newer version has written. */
export function givenOf(text: string): GivenRule | null {
  if (!readable(text)) return null
  const { at, ...rule } = JSON.parse(text) as GivenRule & { at?: string }
  return at === undefined ? rule : { at: new Date(at) }
}
