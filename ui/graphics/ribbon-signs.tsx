// What is drawn in a row of the ribbon: the signs alone, where they are told to stand.
import { useNow } from '../clock.js'
import { formatNumber } from '../format.js'
import { markOf } from '../marks.js'
import { Shape, type Tone, toneOf } from '../parts/state.js'
import {
  changeInWords,
  momentOf,
  type Reason,
  type RibbonCell,
  type RibbonRow,
  reasons,
  shortTimes,
} from './ribbon-words.js'

export const rowHeight = 46
const lane = 15
const radius = 8
/** Runs that began later than this after their tick are late for the eye, too. */
const lateMs = 1_000

interface CellProps {
  readonly cell: RibbonCell
  readonly x: (time: number) => number
  readonly left: number
  readonly width: number
}

/** The ticks of a step: who won them, and what has no run. */
export function Cell({ cell, x, left, width }: CellProps) {
  const { runs, gaps, ticks } = cell
  const worst = worstOf(cell)
  // What is under way from before the beginning stands at the edge.
  const isBefore = cell.step < 0
  const middle = isBefore ? radius + 1 : ticks === 1 ? Math.max(radius, x(Date.parse(cell.at))) : left + width / 2
  if (runs.length === 0) {
    const gap = gaps[0]!
    return (
      <>
        <GapSign reason={gap.reason} at={middle} />
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
        <Lasted from={startedAt} upto={cell.endedAt} x={x} instance={main.instance} />
      )}
      {isOne && startedAt !== null && (cell.late ?? 0) >= lateMs && !isBefore && (
        <path class="ribbon-late" d={`M${x(Date.parse(cell.at))} ${lane}H${x(startedAt)}`} />
      )}
      {isOne ? (
        <Dot instance={main.instance} at={middle} state={main.state} isExtra={main.extra} most={width} />
      ) : (
        <>
          <Bar cell={cell} left={left} width={width} />
          <Count n={ticks} about={cell.about} at={middle} room={width} />
        </>
      )}
      {worst && <Badge tone={worst} at={isOne ? middle + 6 : left + width - 5} />}
      {isOne && gaps[0] && <GapSign reason={gaps[0].reason} at={middle} />}
    </>
  )
}

/** Each winner with what it won, the one who won most first; and what nobody has begun. */
function sharesOf({ runs, gaps }: RibbonCell): { instance: string | null; n: number }[] {
  const shares = new Map<string | null, number>()
  for (const { instance, n } of runs) shares.set(instance, (shares.get(instance) ?? 0) + n)
  for (const { ticks } of gaps) shares.set(null, (shares.get(null) ?? 0) + ticks)
  return [...shares].map(([instance, n]) => ({ instance, n })).sort((a, b) => b.n - a.n)
}

function worstOf({ runs }: RibbonCell): Tone | undefined {
  const found = new Set(runs.map(({ state }) => state).filter((state) => state !== 'done'))
  for (const state of ['broken', 'lost', 'failed', 'cancelled', 'waiting', 'running'] as const) {
    if (found.has(state)) return toneOf(state)
  }
  return undefined
}

interface DotProps {
  readonly instance: string | null
  readonly at: number
  readonly state: string
  readonly isExtra: boolean
  readonly most: number
}

function Dot({ instance, at, state, isExtra, most }: DotProps) {
  const r = Math.max(5, Math.min(radius, most / 2))
  if (instance === null) return <circle class="ribbon-waiting" cx={at} cy={lane} r={r - 1} />
  const { letter, colour } = markOf(instance)
  const kind = state === 'running' || state === 'waiting' || state === 'lost' ? 'ribbon-open-dot' : ''
  return (
    <g class={`ribbon-dot mark-${colour} ${kind}`}>
      {isExtra ? (
        <rect x={at - r} y={lane - r} width={2 * r} height={2 * r} rx="2.500" />
      ) : (
        <circle cx={at} cy={lane} r={r} />
      )}
      <text x={at} y={lane + 3.5} style={letter.length > 1 ? { fontSize: '7px' } : undefined}>
        {letter}
      </text>
    </g>
  )
}

/** Several ticks: the letter of whoever won most, and below it the part of each. */
function Bar({ cell, left, width }: { readonly cell: RibbonCell; readonly left: number; readonly width: number }) {
  const shares = sharesOf(cell)
  const first = shares.find(({ instance }) => instance !== null)
  const wide = Math.max(2, width - 1)
  const total = shares.reduce((sum, { n }) => sum + n, 0)
  let at = left
  const mark = first?.instance ? markOf(first.instance) : undefined
  return (
    <g class={`ribbon-dot ${mark ? `mark-${mark.colour}` : ''}`}>
      <rect x={left} y={lane - 9} width={wide} height="16" rx="2" class={mark ? undefined : 'ribbon-nobody'} />
      {mark && wide >= 9 && (
        <text x={left + wide / 2} y={lane + 2.5} style={mark.letter.length > 1 ? { fontSize: '7px' } : undefined}>
          {mark.letter}
        </text>
      )}
      {shares.map(({ instance, n }) => {
        const part = (n / total) * wide
        const begin = at
        at += part
        return (
          <rect
            key={instance ?? ''}
            class={instance === null ? 'ribbon-nobody' : `mark-${markOf(instance).colour}`}
            x={begin}
            y={lane + 8}
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
  readonly about?: boolean
}

function Count({ n, at, room, about }: CountProps) {
  const text = `${about && room >= 22 ? '≈' : ''}${n < 1_000 ? n : n < 10_000 ? `${(n / 1_000).toFixed(1)}k` : `${Math.round(n / 1_000)}k`}`
  if (text.length * 6 > room - 2) return null
  return (
    <text class="ribbon-count" x={at} y={rowHeight - 4}>
      {text}
    </text>
  )
}

function GapSign({ reason, at }: { readonly reason: Reason; readonly at: number }) {
  return <path class="ribbon-gap-sign" transform={`translate(${at - 6} ${lane - 6})`} d={reasons[reason].sign} />
}

interface ComingProps {
  readonly coming: RibbonRow['coming'][number]
  readonly x: (time: number) => number
  readonly left: number
  readonly width: number
}

/** What is to come: a tick, or so many in a step. */
export function Coming({ coming: { at, ticks, note }, x, left, width }: ComingProps) {
  const more = ticks > 1 ? ` and ${formatNumber(ticks - 1)} more` : ''
  return (
    <g class="ribbon-coming" data-noted={note !== null || undefined}>
      <title>{`${momentOf(at)}${more} to come${note ? `: ${note}` : ''}`}</title>
      {ticks === 1 ? (
        <circle cx={x(Date.parse(at))} cy={lane} r="4" />
      ) : (
        <>
          <rect x={left + 1} y={lane - 4} width={Math.max(1, width - 2)} height="8" rx="4" />
          <Count n={ticks} at={left + width / 2} room={width} />
        </>
      )}
    </g>
  )
}

interface BandProps {
  readonly band: RibbonRow['bands'][number]
  readonly x: (time: number) => number
  readonly least: number
}

/** Ticks without a run, one after the other. */
export function Band({ band: { first, last, ticks, reason }, x, least }: BandProps) {
  const left = x(Date.parse(first))
  const width = Math.max(least, x(Date.parse(last)) - left)
  const says = `${reason}, ${formatNumber(ticks)} ticks`
  return (
    <g class="ribbon-band">
      <title>{`${momentOf(first)} to ${momentOf(last)}: ${formatNumber(ticks)} ticks without a run. ${reasons[reason].says}`}</title>
      <rect x={left} y={lane - 8} width={width} height="16" rx="3" />
      <GapSign reason={reason} at={left + 9} />
      {width > says.length * 5.8 + 24 && (
        <text x={left + 19} y={lane + 3.5}>
          {says}
        </text>
      )}
    </g>
  )
}

interface LastedProps {
  readonly from: number
  readonly upto: string | null
  readonly x: (time: number) => number
  readonly instance: string | null
}

/** From the beginning of a run to its end; one that is under way is open, and goes on with now. */
function Lasted({ from, upto, x, instance }: LastedProps) {
  const time = useNow()
  const [left, right] = [x(from), x(upto === null ? time : Date.parse(upto))]
  if (right - left < 3) return null
  return (
    <g class={`ribbon-lasted mark-${instance === null ? 0 : markOf(instance).colour}`}>
      <path d={`M${left} ${lane + 15}H${right}`} />
      {upto === null && <path class="ribbon-arrow" d={`M${right - 4} ${lane + 11}l4 4-4 4`} />}
    </g>
  )
}

/** What happened to the worst of a cell, in its corner. */
function Badge({ tone, at }: { readonly tone: Tone; readonly at: number }) {
  return (
    <g class="ribbon-badge" transform={`translate(${at - 6} ${lane - 14})`}>
      <circle cx="6" cy="6" r="6" />
      <g transform="translate(1 1)">
        <Shape tone={tone} />
      </g>
    </g>
  )
}

interface ChangeProps {
  readonly change: RibbonRow['changes'][number]
  readonly row: RibbonRow
  readonly x: (time: number) => number
}

/** Where the clocks of the zone change. */
export function Change({ change, row, x }: ChangeProps) {
  const [left, right] = [x(Date.parse(change.at)), x(Date.parse(change.upto))]
  const says = changeInWords(change, row.timezone)
  return (
    <g class="ribbon-change">
      <title>{says}</title>
      {right - left > 1 && <rect x={left} y="0" width={right - left} height={rowHeight} />}
      <path d={`M${left} 0v${rowHeight}`} />
      <text x={left + 3} y={rowHeight - 4}>
        {change.kind === 'skipped' ? `${shortTimes(change)} skipped` : `${shortTimes(change)} twice`}
      </text>
    </g>
  )
}

export function NowLine({ x }: { readonly x: (time: number) => number }) {
  const at = x(useNow())
  return <path class="ribbon-now" d={`M${at} 0v${rowHeight}`} />
}
