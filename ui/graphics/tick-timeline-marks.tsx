// Components that draw the ticks in a row of the tick timeline.
import { useNow } from '../clock.js'
import { formatNumber } from '../format.js'
import { type Mark, markOf } from '../marks.js'
import { Shape, type Tone, toneOf } from '../parts/state.js'
import {
  changeTimes,
  clockChangeText,
  formatTick,
  nameOf,
  type Reason,
  reasonTexts,
  type TickTimelineCell,
  type TickTimelineData,
  type TickTimelineRow,
} from './tick-timeline-text.js'

export const rowHeight = 46
const laneY = 15
const radius = 8
/** Minimum delay that the timeline shows for a run. */
const lateMs = 1_000

type Scale = (time: number) => number

/** Position of a step, and the timeline's scale. */
interface StepPosition {
  readonly x: Scale
  readonly left: number
  readonly width: number
}

interface CellProps {
  readonly cell: TickTimelineCell
  readonly data: TickTimelineData
}

/** Returns an instance's mark. */
type MarkOf = (instance: string) => Mark

/** Draws one step's ticks, with the instances that ran them and the ticks without a run. */
export function Cell({ cell, data, x, left, width }: StepPosition & CellProps) {
  const { runs, gaps, ticks } = cell
  const mark = (instance: string) => markOf(instance, nameOf(instance, data))
  const worst = worstTone(cell)
  // A run that started before the timeline's first step is drawn at the left edge.
  const isBefore = cell.step < 0
  const middle = isBefore ? radius + 1 : ticks === 1 ? Math.max(radius, x(Date.parse(cell.at))) : left + width / 2
  if (runs.length === 0) {
    const gap = gaps[0]!
    return (
      <>
        <GapIcon reason={gap.reason} at={middle} />
        {ticks > 1 && <Count n={ticks} at={middle} room={width} />}
      </>
    )
  }
  const main = runs[0]!
  const open = runs.some(({ state }) => state === 'running' || state === 'lost')
  const startedAt = cell.startedAt === null ? null : Date.parse(cell.startedAt)
  const isOne = ticks === 1 || isBefore
  return (
    <>
      {isOne && startedAt !== null && (open || cell.endedAt) && (
        <RunSpan
          from={startedAt}
          until={cell.endedAt}
          x={x}
          mark={main.instance === null ? undefined : mark(main.instance)}
        />
      )}
      {isOne && startedAt !== null && (cell.lateMs ?? 0) >= lateMs && !isBefore && (
        <path class="tick-timeline-late" d={`M${x(Date.parse(cell.at))} ${laneY}H${x(startedAt)}`} />
      )}
      {isOne ? (
        <Dot
          mark={main.instance === null ? undefined : mark(main.instance)}
          at={middle}
          state={main.state}
          isExtra={main.extra}
          maxWidth={width}
        />
      ) : (
        <>
          <Bar cell={cell} mark={mark} left={left} width={width} />
          <Count n={ticks} isEstimate={cell.isEstimate} at={middle} room={width} />
        </>
      )}
      {worst && <Badge tone={worst} at={isOne ? middle + 6 : left + width - 5} />}
      {isOne && gaps[0] && <GapIcon reason={gaps[0].reason} at={middle} />}
    </>
  )
}

/** Returns the number of ticks that each instance ran, largest first. Ticks without a run have a null instance. */
function sharesOf({ runs, gaps }: TickTimelineCell): { instance: string | null; n: number }[] {
  const shares = new Map<string | null, number>()
  for (const { instance, n } of runs) shares.set(instance, (shares.get(instance) ?? 0) + n)
  for (const { ticks } of gaps) shares.set(null, (shares.get(null) ?? 0) + ticks)
  return [...shares].map(([instance, n]) => ({ instance, n })).sort((a, b) => b.n - a.n)
}

function worstTone({ runs }: TickTimelineCell): Tone | undefined {
  const found = new Set(runs.map(({ state }) => state).filter((state) => state !== 'done'))
  for (const state of ['broken', 'lost', 'failed', 'cancelled', 'waiting', 'running'] as const) {
    if (found.has(state)) return toneOf(state)
  }
  return undefined
}

/** Returns the style of a letter that would otherwise be too wide for a dot. */
function sizeOf({ length }: string): { readonly fontSize: string } | undefined {
  return length === 1 ? undefined : { fontSize: length === 2 ? '8px' : '6.5px' }
}

interface DotProps {
  /** Undefined while no instance runs the tick. */
  readonly mark: Mark | undefined
  readonly at: number
  readonly state: string
  readonly isExtra: boolean
  readonly maxWidth: number
}

function Dot({ mark, at, state, isExtra, maxWidth }: DotProps) {
  const r = Math.max(5, Math.min(radius, maxWidth / 2))
  if (!mark) return <circle class="tick-timeline-waiting" cx={at} cy={laneY} r={r - 1} />
  const { letter, style } = mark
  const kind = state === 'running' || state === 'waiting' || state === 'lost' ? 'tick-timeline-open-dot' : ''
  return (
    <g class={`tick-timeline-dot ${kind}`} style={style}>
      {isExtra ? (
        <rect x={at - r} y={laneY - r} width={2 * r} height={2 * r} rx="2.500" />
      ) : (
        <circle cx={at} cy={laneY} r={r} />
      )}
      <text x={at} y={laneY + 3.5} style={sizeOf(letter)}>
        {letter}
      </text>
    </g>
  )
}

/**
 * Draws several ticks as a bar: the letter of the instance with the most ticks, above a strip with all instances'
 * shares.
 */
function Bar({
  cell,
  mark,
  left,
  width,
}: Omit<StepPosition, 'x'> & Pick<CellProps, 'cell'> & { readonly mark: MarkOf }) {
  const shares = sharesOf(cell)
  const first = shares.find(({ instance }) => instance !== null)
  const wide = Math.max(2, width - 1)
  const total = shares.reduce((sum, { n }) => sum + n, 0)
  let at = left
  const main = first?.instance ? mark(first.instance) : undefined
  return (
    <g class="tick-timeline-dot" style={main?.style}>
      <rect
        x={left}
        y={laneY - 9}
        width={wide}
        height="16"
        rx="2"
        class={main ? undefined : 'tick-timeline-unclaimed'}
      />
      {main && wide >= 9 && (
        <text x={left + wide / 2} y={laneY + 2.5} style={sizeOf(main.letter)}>
          {main.letter}
        </text>
      )}
      {shares.map(({ instance, n }) => {
        const part = (n / total) * wide
        const begin = at
        at += part
        return (
          <rect
            key={instance ?? ''}
            class={instance === null ? 'tick-timeline-unclaimed' : undefined}
            style={instance === null ? undefined : mark(instance).style}
            x={begin}
            y={laneY + 8}
            width={part}
            height="5"
          />
        )
      })}
    </g>
  )
}

interface CountProps {
  readonly n: number
  readonly at: number
  readonly room: number
  readonly isEstimate?: boolean
}

function Count({ n, at, room, isEstimate }: CountProps) {
  const number = n < 1_000 ? n : n < 10_000 ? `${(n / 1_000).toFixed(1)}k` : `${Math.round(n / 1_000)}k`
  const text = `${isEstimate && room >= 22 ? '≈' : ''}${number}`
  if (text.length * 6 > room - 2) return null
  return (
    <text class="time-note" x={at} y={rowHeight - 4} fill="var(--muted)" text-anchor="middle">
      {text}
    </text>
  )
}

function GapIcon({ reason, at }: { readonly reason: Reason; readonly at: number }) {
  return (
    <path class="tick-timeline-gap-sign" transform={`translate(${at - 6} ${laneY - 6})`} d={reasonTexts[reason].path} />
  )
}

interface UpcomingProps extends StepPosition {
  readonly upcoming: TickTimelineRow['upcoming'][number]
}

/** Draws one step's future ticks. */
export function Upcoming({ upcoming: { at, ticks, note }, x, left, width }: UpcomingProps) {
  const more = ticks > 1 ? ` and ${formatNumber(ticks - 1)} more` : ''
  return (
    <g class="tick-timeline-upcoming" data-noted={note !== null || undefined}>
      <title>{`${formatTick(at)}${more} upcoming${note ? `: ${note}` : ''}`}</title>
      {ticks === 1 ? (
        <circle cx={x(Date.parse(at))} cy={laneY} r="4" />
      ) : (
        <>
          <rect x={left + 1} y={laneY - 4} width={Math.max(1, width - 2)} height="8" rx="4" />
          <Count n={ticks} at={left + width / 2} room={width} />
        </>
      )}
    </g>
  )
}

interface BandProps {
  readonly band: TickTimelineRow['bands'][number]
  readonly x: Scale
  readonly minWidth: number
}

/** Draws a range of consecutive ticks without a run. */
export function Band({ band: { first, last, ticks, reason }, x, minWidth }: BandProps) {
  const left = x(Date.parse(first))
  const width = Math.max(minWidth, x(Date.parse(last)) - left)
  const text = `${reason}, ${formatNumber(ticks)} ticks`
  return (
    <g class="tick-timeline-band">
      <title>{`${formatTick(first)} to ${formatTick(last)}: ${formatNumber(ticks)} ticks without a run. ${reasonTexts[reason].text}`}</title>
      <rect x={left} y={laneY - 8} width={width} height="16" rx="3" />
      <GapIcon reason={reason} at={left + 9} />
      {width > text.length * 5.8 + 24 && (
        <text x={left + 19} y={laneY + 3.5}>
          {text}
        </text>
      )}
    </g>
  )
}

interface RunSpanProps {
  readonly from: number
  readonly until: string | null
  readonly x: Scale
  readonly mark: Mark | undefined
}

/** Draws a run's duration. A run that has not ended extends to the current time. */
function RunSpan({ from, until, x, mark }: RunSpanProps) {
  const time = useNow()
  const [left, right] = [x(from), x(until === null ? time : Date.parse(until))]
  if (right - left < 3) return null
  return (
    <g class="tick-timeline-duration" style={mark?.style}>
      <path d={`M${left} ${laneY + 15}H${right}`} />
      {until === null && <path class="tick-timeline-arrow" d={`M${right - 4} ${laneY + 11}l4 4-4 4`} />}
    </g>
  )
}

/** Draws a cell's most severe state in its corner. */
function Badge({ tone, at }: { readonly tone: Tone; readonly at: number }) {
  return (
    <g transform={`translate(${at - 6} ${laneY - 14})`}>
      <circle cx="6" cy="6" r="6" fill="var(--raised)" />
      <g transform="translate(1 1)">
        <Shape tone={tone} />
      </g>
    </g>
  )
}

interface ChangeProps {
  readonly change: TickTimelineRow['changes'][number]
  readonly row: TickTimelineRow
  readonly x: Scale
}

/** Draws a clock change in the schedule's time zone. */
export function Change({ change, row, x }: ChangeProps) {
  const [left, right] = [x(Date.parse(change.at)), x(Date.parse(change.until))]
  const text = clockChangeText(change, row.timezone)
  return (
    <g class="time-note" fill="var(--wait)">
      <title>{text}</title>
      {right - left > 1 && <rect x={left} width={right - left} height={rowHeight} fill="var(--wait-ground)" />}
      <path d={`M${left} 0v${rowHeight}`} stroke="var(--wait)" stroke-dasharray="4 2" />
      <text x={left + 3} y={rowHeight - 4}>
        {change.kind === 'skipped' ? `${changeTimes(change)} skipped` : `${changeTimes(change)} twice`}
      </text>
    </g>
  )
}

export function NowLine({ x }: { readonly x: Scale }) {
  const at = x(useNow())
  return <path d={`M${at} 0v${rowHeight}`} stroke="var(--accent)" stroke-width="1.25" />
}
