import type { LogLine, RecordedError } from '../base/index.js'
import {
  type ClockChange,
  clockChanges,
  type LocalTick,
  readScheduleRule,
  ruleFromText,
  type ScheduleRule,
  type TickRule,
} from '../cron/index.js'
import { arrayLiteral, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { dateOf, type RawRow, readDocument, readRow } from './rows.js'
import type { EndedRun, ObservedGap, ObservedSchedule, RunState } from './schedule-rows.js'
import { buildTickTimeline, type TickTimeline, type TickTimelineDocument, tickTimelineSpan } from './tick-timeline.js'

export interface ScheduleFilter {
  readonly namespace?: string | undefined
  /** Text that the name must contain, ignoring case. */
  readonly search?: string | undefined
  /** Exact name. */
  readonly name?: string | undefined
  /** Maximum number of schedules. Default 50. */
  readonly limit?: number | undefined
  /** Number of schedules to skip. */
  readonly offset?: number | undefined
}

export interface ObservedSchedules {
  /** Matching schedules, sorted by namespace and name. */
  readonly rows: readonly ObservedSchedule[]
  /** Total number of matching schedules. */
  readonly count: number
}

export interface ScheduleMember {
  readonly instance: string
  /** Name of the instance. */
  readonly instanceName: string | null
  readonly host: string | null
  readonly osPid: number | null
  /** Rule that the instance's code defines. */
  readonly rule: ScheduleRule | null
  readonly since: Date
}

export interface ObservedRun {
  readonly tick: Date
  readonly extra: boolean
  /**
   * State of the run. `lost`: the instance has died, and no other instance has taken over the run or recorded the loss
   * yet.
   */
  readonly state: RunState
  readonly instance: string | null
  /** Name of the instance. */
  readonly instanceName: string | null
  readonly host: string | null
  readonly osPid: number | null
  readonly fence: string | null
  readonly attempt: number
  /** Number of instances that died during the run. */
  readonly crashes: number
  /** Milliseconds from the tick to the start of the last attempt. Null if no attempt started. */
  readonly lateMs: number | null
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  readonly stopping: string | null
  readonly error: { readonly name: string; readonly message: string } | null
  /** Number of lines in the run's log. */
  readonly lines: number
}

export interface UpcomingTick extends LocalTick {
  readonly at: Date
}

export interface ScheduleDetails
  extends Pick<ObservedSchedule, 'key' | 'rule' | 'overridden' | 'stored' | 'pausedAt' | 'nextAt'> {
  readonly codeRule: ScheduleRule | null
  /** Latest tick for which a run or a gap is recorded. */
  readonly settledAt: Date | null
  readonly overlap: 'skip' | 'queue' | 'allow' | 'replace'
  readonly missed: 'skip' | 'latest' | 'all'
  /** Maximum number of missed ticks that are caught up if `missed` is `all`. */
  readonly catchUp: number
  readonly reruns: boolean
  /** Job that each tick enqueues, according to the member that joined last. Null if the schedule has a function. */
  readonly job: { readonly queue: string; readonly kind: string } | null
  readonly members: readonly ScheduleMember[]
  /** The current rule, followed by the earlier rules. */
  readonly rules: readonly { readonly since: Date; readonly rule: ScheduleRule | null }[]
  readonly runs: readonly ObservedRun[]
  readonly gaps: readonly ObservedGap[]
  /** Next ticks according to the rule. Empty while the schedule is paused. */
  readonly upcoming: readonly UpcomingTick[]
  /** Next clock change in the schedule's time zone. Null if there is none within a year. */
  readonly clockChange: ClockChange | null
  /** Number of ticks that passed during the current pause and are not recorded yet. */
  readonly unrecordedTicks: number
}

type ParsedSchedule = 'rule' | 'codeRule' | 'members' | 'rules' | 'runs' | 'gaps' | 'upcoming' | 'clockChange'

type WithRuleText<Row> = RawRow<Omit<Row, 'rule'>> & { readonly rule: string }

/** A schedule as SQL returns it. */
export type RawScheduleRow = WithRuleText<Omit<ObservedSchedule, 'last'>> & {
  readonly last: (RawRow<EndedRun> & { readonly endedMs: number }) | null
}

type RawScheduleDetails = RawRow<Omit<ScheduleDetails, ParsedSchedule | 'unrecordedTicks'>> & {
  readonly nowMs: number
  readonly rule: string
  readonly codeRule: string
  readonly members: WithRuleText<ScheduleMember>[] | null
  readonly rules: { readonly since: number; readonly rule: string }[] | null
  readonly runs: RawRow<ObservedRun>[] | null
  readonly gaps: RawRow<ObservedGap>[] | null
}

const yearMs = 366 * 86_400_000
const upcomingCount = 12
/** Maximum number of runs, and maximum number of gaps, in a schedule's details. */
const maxRuns = 60
const maxTimelineSchedules = 20
/**
 * Maximum number of ticks that a timeline reads per schedule. For a schedule with more ticks, the timeline reads
 * `maxPerStep` ticks per step.
 */
const maxSparseTicks = 300
const maxPerStep = 12

/** Reads schedules. Part of the `Observer`. */
export class SchedulesObserver {
  readonly #reader: Reader
  readonly #sql: Record<'schedules' | 'schedule' | 'run' | 'tick_timeline', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = {
      ...loadStatements<'schedules' | 'schedule' | 'run'>(new URL('./schedules.sql', import.meta.url), schema),
      ...loadStatements<'tick_timeline'>(new URL('./tick-timeline.sql', import.meta.url), schema),
    }
  }

  /** Lists schedules with their next tick and their last run. */
  async list(only: ScheduleFilter = {}): Promise<ObservedSchedules> {
    const { rows, count } = await this.readRows(only)
    return { rows: rows.map(readSchedule), count }
  }

  /** Reads one schedule. Returns null if it does not exist. */
  async find(namespace: string, name: string): Promise<ScheduleDetails | null> {
    const values = [namespace, name, maxRuns]
    const found = await readDocument<RawScheduleDetails>(this.#reader, this.#sql.schedule, values)
    return found ? readDetails(found) : null
  }

  /** Reads one run's recorded error and log. Returns null if the run does not exist. */
  async run(
    namespace: string,
    name: string,
    tick: Date,
    extra = false,
  ): Promise<{ error: RecordedError | null; log: readonly LogLine[] } | null> {
    type Found = { error: RecordedError | null; log: LogLine[] | null }
    const found = await readDocument<Found>(this.#reader, this.#sql.run, [namespace, name, tick, extra])
    return found ? { error: found.error, log: found.log ?? [] } : null
  }

  /**
   * Reads up to 20 schedules' ticks during the last `minutes`, in at most `steps` steps. Returns the instance that ran
   * each tick, the gaps with their reasons, and the next ticks.
   */
  async tickTimeline(
    only: ScheduleFilter & { readonly minutes: number; readonly steps: number },
  ): Promise<TickTimeline> {
    const { rows, count, nowMs } = await this.readRows({
      ...only,
      limit: Math.min(maxTimelineSchedules, only.limit ?? maxTimelineSchedules),
    })
    const span = tickTimelineSpan(nowMs, only.minutes, only.steps)
    const listed = rows.map((row) => {
      const schedule = readSchedule(row)
      const rule = parseTickRule(row.rule)
      const expected = rule?.count(new Date(span.fromMs), new Date(nowMs)) ?? 0
      return { schedule, rule, nextMs: row.nextAt, isDense: expected > maxSparseTicks / 2 }
    })
    const found =
      listed.length === 0
        ? undefined
        : await readDocument<TickTimelineDocument>(this.#reader, this.#sql.tick_timeline, [
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

  /**
   * Reads rows as SQL returns them. With `byNextTick`, sorts the rows by their next tick, with paused schedules last.
   */
  async readRows(
    filter: ScheduleFilter & { readonly byNextTick?: boolean },
  ): Promise<{ readonly rows: readonly RawScheduleRow[]; readonly count: number; readonly nowMs: number }> {
    const { namespace, search, name, limit = 50, offset = 0, byNextTick = false } = filter
    const values = [namespace ?? null, search || null, limit, offset, name ?? null, byNextTick]
    return (await readDocument(this.#reader, this.#sql.schedules, values))!
  }
}

function readSchedule({ rule, pausedAt, nextAt, last, ...same }: RawScheduleRow): ObservedSchedule {
  return {
    ...same,
    rule: parseGivenRule(rule),
    pausedAt: dateOf(pausedAt),
    nextAt: pausedAt === null ? dateOf(nextAt) : null,
    last: last && readLast(last),
  }
}

function readLast({ endedMs: _, ...row }: NonNullable<RawScheduleRow['last']>): EndedRun {
  return readRow<EndedRun>(row, 'tick')
}

function readDetails(found: RawScheduleDetails): ScheduleDetails {
  const { nowMs, rule, codeRule, nextAt, members, rules, runs, gaps, ...same } = found
  const tickRule = parseTickRule(rule)
  const isPaused = found.pausedAt !== null
  return {
    ...same,
    rule: parseGivenRule(rule),
    codeRule: parseGivenRule(codeRule),
    pausedAt: dateOf(found.pausedAt),
    settledAt: dateOf(found.settledAt),
    nextAt: isPaused ? null : dateOf(nextAt),
    members: (members ?? []).map((row) => ({ ...row, rule: parseGivenRule(row.rule), since: new Date(row.since) })),
    rules: (rules ?? []).map(({ since, rule }) => ({ since: new Date(since), rule: parseGivenRule(rule) })),
    runs: (runs ?? []).map((row) => readRow<ObservedRun>(row, 'tick', 'startedAt', 'endedAt')),
    gaps: (gaps ?? []).map((row) => readRow<ObservedGap>(row, 'first', 'last')),
    upcoming: isPaused || nextAt === null || !tickRule ? [] : upcomingOf(tickRule, nextAt),
    clockChange: nextClockChange(parseGivenRule(rule)?.timezone, nowMs),
    unrecordedTicks:
      isPaused && nextAt !== null && tickRule ? tickRule.count(new Date(nextAt - 1), new Date(nowMs)) : 0,
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

/** Parses a rule. Returns null if a newer version of Holdfast wrote the rule. */
function parseTickRule(text: string): TickRule | null {
  try {
    return ruleFromText(text)
  } catch {
    return null
  }
}

/**
 * Converts a rule back to the options that the user passed. Returns null if a newer version of Holdfast wrote the rule.
 */
export function parseGivenRule(text: string): ScheduleRule | null {
  if (!parseTickRule(text)) return null
  return readScheduleRule(text)
}
