import { type ClockChange, clockChanges, describeRule, type TickRule } from '../cron/index.js'
import { dateOf, msOf } from './rows.js'
import type { GapReason, ObservedGap, ObservedSchedule, RunState } from './schedule-rows.js'

/** Timeline of several schedules' ticks. */
export interface TickTimeline {
  /** Start of the timeline. */
  readonly from: Date
  /** End of the timeline, in the future. */
  readonly until: Date
  /** Length of a step in milliseconds. Ticks in the same step share a cell. */
  readonly step: number
  /** Total number of matching schedules. */
  readonly count: number
  readonly rows: readonly TickTimelineRow[]
  /** Instances that appear in the rows and are still known. */
  readonly instances: readonly {
    readonly id: string
    readonly name: string
    readonly host: string
    readonly osPid: number
  }[]
}

type TimelineSchedule = Omit<ObservedSchedule, 'rule' | 'stored' | 'members' | 'running' | 'last'>

export interface TickTimelineRow extends TimelineSchedule {
  /** Description of the rule. */
  readonly rule: string
  readonly timezone: string | null
  readonly members: readonly { readonly instance: string; readonly since: Date }[]
  readonly cells: readonly TickTimelineCell[]
  /** Gaps that span more than one step. */
  readonly bands: readonly ObservedGap[]
  readonly upcoming: readonly UpcomingTicks[]
  readonly changes: readonly ClockChange[]
  /** Start of the oldest listed gap, if earlier gaps were omitted. Null if all gaps are listed. */
  readonly gapsFrom: Date | null
}

/** Ticks in one step. Step -1 contains current runs whose ticks are before the start of the timeline. */
export interface TickTimelineCell {
  readonly step: number
  /** First tick of the step. */
  readonly at: Date
  /** Last tick of the step. */
  readonly last: Date
  readonly ticks: number
  /** Whether only some of the ticks were read. If true, `ticks` is computed from the rule, and `runs` is a sample. */
  readonly isEstimate: boolean
  readonly runs: readonly TickTimelineRuns[]
  readonly gaps: readonly { readonly reason: GapReason; readonly ticks: number }[]
  /** Longest delay between a tick and the start of its run, in milliseconds. */
  readonly lateMs: number | null
  /** Largest number of attempts that a run needed. */
  readonly attempt: number
  readonly startedAt: Date | null
  /** Time when the last run ended. Null while a run is still in progress. */
  readonly endedAt: Date | null
}

/** Runs in one step with the same instance and state. */
export interface TickTimelineRuns {
  readonly instance: string | null
  readonly state: RunState
  /** Whether these are extra runs, which were requested in addition to the rule's ticks. */
  readonly extra: boolean
  readonly n: number
}

/** Future ticks in one step. */
export interface UpcomingTicks {
  readonly step: number
  readonly at: Date
  readonly ticks: number
  /** Effect of a clock change on one of the ticks. */
  readonly note: string | null
}

export interface TickTimelineSpan {
  readonly fromMs: number
  readonly stepMs: number
  /** Number of steps that have already started. */
  readonly pastSteps: number
  readonly steps: number
}

/** Document that the `tick_timeline` statement returns. */
export interface TickTimelineDocument {
  readonly nowMs: number
  readonly runs: readonly RunsRow[]
  readonly gaps: readonly GapRow[]
  readonly members: readonly { key: string; instance: string; sinceMs: number }[]
  readonly instances: TickTimeline['instances']
}

interface RunsRow extends TickTimelineRuns {
  readonly key: string
  readonly step: number
  readonly firstMs: number
  readonly lastMs: number
  readonly lateMs: number | null
  readonly attempt: number
  readonly startedMs: number | null
  readonly endedMs: number | null
}

interface GapRow extends Pick<ObservedGap, 'ticks' | 'reason'> {
  readonly key: string
  readonly firstMs: number
  readonly lastMs: number
}

/** A schedule with its parsed rule. The rule is null if a newer version of Holdfast wrote it. */
export interface ListedSchedule {
  readonly schedule: ObservedSchedule
  readonly rule: TickRule | null
  readonly nextMs: number | null
  readonly isDense: boolean
}

const second = 1_000
const minute = 60 * second
/** Step sizes that are easy to read. */
const stepSizesMs = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * second),
  ...[1, 2, 5, 10, 15, 30, 60, 120].map((minutes) => minutes * minute),
]
/** Length of the timeline's future part, as a fraction of its past part. */
const futureShare = 1 / 6
const maxNoted = 5

/**
 * Computes the timeline's time span. Steps are aligned to absolute time, so that cells do not move between two reads.
 */
export function tickTimelineSpan(nowMs: number, minutes: number, maxSteps: number): TickTimelineSpan {
  const pastMs = minutes * minute
  const aheadMs = pastMs * futureShare
  const stepMs = stepSizesMs.find((step) => (pastMs + aheadMs) / step <= maxSteps) ?? stepSizesMs.at(-1)!
  const fromMs = Math.floor((nowMs - pastMs) / stepMs) * stepMs
  const pastSteps = Math.floor((nowMs - fromMs) / stepMs) + 1
  return { fromMs, stepMs, pastSteps, steps: pastSteps + Math.max(1, Math.round(aheadMs / stepMs)) }
}

export function buildTickTimeline(
  listed: readonly ListedSchedule[],
  found: TickTimelineDocument | undefined,
  span: TickTimelineSpan,
  { maxRead, maxPerStep }: { readonly maxRead: number; readonly maxPerStep: number },
): Omit<TickTimeline, 'count'> {
  const uptoMs = span.fromMs + span.steps * span.stepMs
  const rows = listed.map((one): TickTimelineRow => {
    const { key, namespace, name, rule, overridden, pausedAt, nextAt } = one.schedule
    const ofIt = <Row extends { key: string }>(all: readonly Row[] | undefined) =>
      (all ?? []).filter((row) => row.key === key)
    const gaps = ofIt(found?.gaps)
    // The gaps during the current pause are merged into one band, which includes ticks that are not recorded yet.
    const settled = gaps.filter((gap) => !isOfPause(gap, pausedAt))
    const timezone = rule?.timezone && rule.timezone !== 'UTC' ? rule.timezone : null
    return {
      ...{ key, namespace, name, rule: describeRule(rule), timezone, overridden, pausedAt, nextAt },
      members: ofIt(found?.members).map(({ instance, sinceMs }) => ({ instance, since: new Date(sinceMs) })),
      cells: cellsOf(one, ofIt(found?.runs), settled, span, maxPerStep),
      bands: [
        ...settled.filter((gap) => !isOfOneStep(gap, span)).map(bandOf),
        ...pauseOf(one, gaps, found?.nowMs ?? 0),
      ],
      upcoming: upcomingOf(one, found?.nowMs ?? 0, span),
      changes: timezone ? clockChanges(timezone, new Date(span.fromMs), new Date(uptoMs)) : [],
      gapsFrom: gaps.length < maxRead ? null : new Date(gaps[0]!.firstMs),
    }
  })
  return {
    from: new Date(span.fromMs),
    until: new Date(uptoMs),
    step: span.stepMs,
    rows,
    instances: found?.instances ?? [],
  }
}

function cellsOf(
  { rule, nextMs, isDense }: ListedSchedule,
  runs: readonly RunsRow[],
  gaps: readonly GapRow[],
  span: TickTimelineSpan,
  maxPerStep: number,
): TickTimelineCell[] {
  const short = gaps.filter((gap) => isOfOneStep(gap, span))
  const steps = new Set([...runs.map(({ step }) => step), ...short.map((gap) => stepOf(gap.firstMs, span))])
  return [...steps]
    .sort((a, b) => a - b)
    .map((step) => {
      const own = runs.filter((run) => run.step === step)
      const missing = short.filter((gap) => stepOf(gap.firstMs, span) === step)
      const read = sum(own.map(({ n }) => n))
      const firsts = [...own, ...missing].map(({ firstMs }) => firstMs)
      const lasts = [...own, ...missing].map(({ lastMs }) => lastMs)
      const isUnderWay = own.some(({ state }) => state === 'running' || state === 'waiting' || state === 'lost')
      let ran = read
      if (isDense && read >= maxPerStep && rule && step >= 0) {
        const fromMs = span.fromMs + step * span.stepMs
        const uptoMs = Math.min(fromMs + span.stepMs, nextMs ?? Number.POSITIVE_INFINITY)
        const without =
          sum(missing.map(({ ticks }) => ticks)) + sum(gaps.map((gap) => ticksWithin(gap, fromMs, uptoMs, rule)))
        ran = Math.max(read, rule.count(new Date(fromMs - 1), new Date(uptoMs - 1)) - without)
      }
      return {
        step,
        at: new Date(Math.min(...firsts)),
        last: new Date(Math.max(...lasts)),
        ticks: ran + sum(missing.map(({ ticks }) => ticks)),
        isEstimate: ran > read,
        runs: own
          .map(({ instance, state, extra, n }) => ({ instance, state, extra, n }))
          .sort((a, b) => b.n - a.n || String(a.instance).localeCompare(String(b.instance))),
        gaps: byReason(missing),
        lateMs: largest(own.map(({ lateMs }) => lateMs)),
        attempt: Math.max(0, ...own.map(({ attempt }) => attempt)),
        startedAt: dateOf(smallest(own.map(({ startedMs }) => startedMs))),
        endedAt: isUnderWay ? null : dateOf(largest(own.map(({ endedMs }) => endedMs))),
      }
    })
}

/** Counts a long gap's ticks that fall within a step. */
function ticksWithin(gap: GapRow, fromMs: number, uptoMs: number, rule: TickRule): number {
  if (gap.lastMs < fromMs || gap.firstMs >= uptoMs || (gap.firstMs >= fromMs && gap.lastMs < uptoMs)) return 0
  return rule.count(new Date(Math.max(gap.firstMs, fromMs) - 1), new Date(Math.min(gap.lastMs, uptoMs - 1)))
}

function upcomingOf(
  { schedule, rule, nextMs }: ListedSchedule,
  nowMs: number,
  span: TickTimelineSpan,
): UpcomingTicks[] {
  if (nextMs === null || schedule.pausedAt !== null || !rule) return []
  const coming: UpcomingTicks[] = []
  // An overdue tick is shown in the current step.
  for (let step = Math.max(0, stepOf(Math.max(nextMs, nowMs), span)); step < span.steps; step++) {
    const fromMs = span.fromMs + step * span.stepMs
    const sinceMs = coming.length === 0 ? nextMs : Math.max(nextMs, fromMs)
    const ticks = rule.count(new Date(sinceMs - 1), new Date(fromMs + span.stepMs - 1))
    if (ticks === 0) continue
    const at = rule.next(new Date(sinceMs - 1))!
    let note: string | null = null
    let tick: Date | null = at
    for (let n = 0; n < Math.min(ticks, maxNoted) && tick && note === null; n++) {
      note = rule.local(tick).note
      tick = rule.next(tick)
    }
    coming.push({ step, at, ticks, note })
  }
  return coming
}

/** Returns the band for the current pause, or undefined if no tick has passed since the pause started. */
function pauseOf(
  { schedule: { pausedAt }, rule, nextMs }: ListedSchedule,
  gaps: readonly GapRow[],
  nowMs: number,
): ObservedGap[] {
  if (pausedAt === null) return []
  const own = gaps.filter((gap) => isOfPause(gap, pausedAt))
  const passed = rule && nextMs !== null && nextMs <= nowMs ? rule.count(new Date(nextMs - 1), new Date(nowMs)) : 0
  const last = passed > 0 ? rule!.previous(new Date(nowMs + 1)) : dateOf(largest(own.map(({ lastMs }) => lastMs)))
  const first = smallest(own.map(({ firstMs }) => firstMs)) ?? nextMs
  if (last === null || first === null) return []
  return [{ first: new Date(first), last, ticks: passed + sum(own.map(({ ticks }) => ticks)), reason: 'paused' }]
}

function isOfPause({ reason, firstMs }: GapRow, pausedAt: Date | null): boolean {
  return reason === 'paused' && pausedAt !== null && firstMs >= pausedAt.getTime()
}

function isOfOneStep({ firstMs, lastMs }: GapRow, span: TickTimelineSpan): boolean {
  return firstMs >= span.fromMs && stepOf(firstMs, span) === stepOf(lastMs, span)
}

function stepOf(ms: number, { fromMs, stepMs }: TickTimelineSpan): number {
  return Math.floor((ms - fromMs) / stepMs)
}

function bandOf({ firstMs, lastMs, ticks, reason }: GapRow): ObservedGap {
  return { first: new Date(firstMs), last: new Date(lastMs), ticks, reason }
}

function byReason(gaps: readonly GapRow[]): TickTimelineCell['gaps'] {
  const ticks = new Map<GapReason, number>()
  for (const gap of gaps) ticks.set(gap.reason, (ticks.get(gap.reason) ?? 0) + gap.ticks)
  return [...ticks].map(([reason, n]) => ({ reason, ticks: n }))
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function smallest(given: readonly (number | null)[]): number | null {
  const known = given.filter((ms) => ms !== null)
  return known.length > 0 ? Math.min(...known) : null
}

function largest(given: readonly (number | null)[]): number | null {
  const known = given.filter((ms) => ms !== null)
  return known.length > 0 ? msOf(Math.max(...known)) : null
}
