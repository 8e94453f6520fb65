import { type ClockChange, clockChanges, describeRule, type TickRule } from '../cron/index.js'
import { dateOf } from './dates.js'
import type { GapReason, ObservedSchedule, RunState } from './schedule-rows.js'

/** Ticks along time, of several schedules. */
export interface TickTimeline {
  /** The beginning and the end of what is drawn; the end lies in the future. */
  readonly from: Date
  readonly until: Date
  /** How long a step is. What falls into one step is one cell. */
  readonly step: number
  /** How many schedules there are. */
  readonly count: number
  readonly rows: readonly TickTimelineRow[]
  /** Who is known of those that are mentioned. */
  readonly instances: readonly { readonly id: string; readonly host: string; readonly osPid: number }[]
}

export interface TickTimelineRow {
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** The rule in words. */
  readonly rule: string
  readonly timezone: string | null
  readonly overridden: boolean
  readonly pausedAt: Date | null
  readonly nextAt: Date | null
  readonly members: readonly { readonly instance: string; readonly since: Date }[]
  readonly cells: readonly TickTimelineCell[]
  readonly bands: readonly TickTimelineBand[]
  readonly upcoming: readonly UpcomingTicks[]
  readonly changes: readonly ClockChange[]
  /** Gaps before it are too many to be told; null where all are. */
  readonly gapsFrom: Date | null
}

/** What became of the ticks of one step; or what is under way from before the beginning, in the step -1. */
export interface TickTimelineCell {
  readonly step: number
  /** The first and the last of its ticks. */
  readonly at: Date
  readonly last: Date
  readonly ticks: number
  /** Whether only some of the ticks were read: then their number comes from the rule, and `runs` are a sample. */
  readonly isEstimate: boolean
  readonly runs: readonly TickTimelineRuns[]
  readonly gaps: readonly { readonly reason: GapReason; readonly ticks: number }[]
  /** Of the latest that began: how long after its tick. */
  readonly late: number | null
  /** Of the one that was begun most often: how often. */
  readonly attempt: number
  readonly startedAt: Date | null
  /** Null while one of them is under way. */
  readonly endedAt: Date | null
}

/** Runs of one step that have all this in common. */
export interface TickTimelineRuns {
  readonly instance: string | null
  readonly state: RunState
  /** Whether it was asked for beside the rule. */
  readonly extra: boolean
  readonly n: number
}

/** Ticks without a run, over more than one step. */
export interface TickTimelineBand {
  readonly first: Date
  readonly last: Date
  readonly ticks: number
  readonly reason: GapReason
}

/** Ticks that are to come, of one step. */
export interface UpcomingTicks {
  readonly step: number
  readonly at: Date
  readonly ticks: number
  /** What a change of the clocks does to one of them. */
  readonly note: string | null
}

export interface TickTimelineSpan {
  readonly fromMs: number
  readonly stepMs: number
  /** How many steps have begun. */
  readonly pastSteps: number
  readonly steps: number
}

/** Answer of the statement `tick_timeline`. */
export interface TickTimelineAnswer {
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

interface GapRow {
  readonly key: string
  readonly firstMs: number
  readonly lastMs: number
  readonly ticks: number
  readonly reason: GapReason
}

/** A schedule with its rule, which may be unreadable here. */
export interface ListedSchedule {
  readonly schedule: ObservedSchedule
  readonly rule: TickRule | null
  readonly nextMs: number | null
  readonly isDense: boolean
}

const second = 1_000
const minute = 60 * second
/** Steps that a clock has, too: nobody reads one of 37 s. */
const stepSizesMs = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * second),
  ...[1, 2, 5, 10, 15, 30, 60, 120].map((minutes) => minutes * minute),
]
/** What is to come takes this part of what is drawn. */
const futureShare = 1 / 6
const maxNoted = 5

/** What is drawn: whole steps of absolute time, so that nothing moves but with a whole step. */
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
  found: TickTimelineAnswer | null,
  span: TickTimelineSpan,
  { maxRead, maxPerStep }: { readonly maxRead: number; readonly maxPerStep: number },
): Omit<TickTimeline, 'count'> {
  const uptoMs = span.fromMs + span.steps * span.stepMs
  const rows = listed.map((one): TickTimelineRow => {
    const { key, namespace, name, rule, overridden, pausedAt, nextAt } = one.schedule
    const ofIt = <Row extends { key: string }>(all: readonly Row[] | undefined) =>
      (all ?? []).filter((row) => row.key === key)
    const gaps = ofIt(found?.gaps)
    // What it misses while it is paused is one band, also the part of it that is not written down yet.
    const settled = gaps.filter((gap) => !isOfPause(gap, pausedAt))
    const timezone = rule?.timezone && rule.timezone !== 'UTC' ? rule.timezone : null
    return {
      key,
      namespace,
      name,
      rule: describeRule(rule),
      timezone,
      overridden,
      pausedAt,
      nextAt,
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
        late: largest(own.map(({ lateMs }) => lateMs)),
        attempt: Math.max(0, ...own.map(({ attempt }) => attempt)),
        startedAt: dateOf(smallest(own.map(({ startedMs }) => startedMs))),
        endedAt: isUnderWay ? null : dateOf(largest(own.map(({ endedMs }) => endedMs))),
      }
    })
}

/** How many ticks of a long gap fall into a step. */
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
  // One that is due already, and that nobody has taken yet, stands where now is.
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

/** The pause that lasts, once a tick has passed in it. */
function pauseOf(
  { schedule: { pausedAt }, rule, nextMs }: ListedSchedule,
  gaps: readonly GapRow[],
  nowMs: number,
): TickTimelineBand[] {
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

function bandOf({ firstMs, lastMs, ticks, reason }: GapRow): TickTimelineBand {
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
  return known.length > 0 ? Math.max(0, Math.round(Math.max(...known))) : null
}
