import './ribbon.css'
import { useRef, useState } from 'preact/hooks'
import { useNow } from '../clock.js'
import { formatClock, formatDuration, formatNumber, shorten } from '../format.js'
import { markOf } from '../marks.js'
import { InstanceMark } from '../parts/mark.js'
import { Name } from '../parts/name.js'
import { Shape, type Tone, toneOf } from '../parts/state.js'
import { useWidth } from '../use-width.js'
import type { Says } from '../wire.js'
import { roundTimes, scaleOf, TimeAxis } from './time-axis.js'

export type RibbonData = Says<'ribbon'>
export type RibbonRow = RibbonData['rows'][number]
export type RibbonCell = RibbonRow['cells'][number]
type Reason = RibbonRow['bands'][number]['reason']

/** The least width of a step in which a letter can be read. */
export const leastStep = 11
/** The width of the column of names, where there is room beside the plot. */
export const labelWidth = 190
const height = 46
const lane = 15
const radius = 8
/** Runs that began later than this after their tick are late for the eye, too. */
const lateMs = 1_000

/** Why ticks have no run, as a sign and in words. */
export const reasons: Readonly<Record<Reason, { readonly sign: string; readonly says: string }>> = {
  paused: { sign: 'M4 2.500v7M8 2.500v7', says: 'paused: an operator wanted it' },
  overlap: { sign: 'M2 4.500h5.500V10H2zM4.500 4.500V2H10v5.500H7.500', says: 'overlap: an earlier run was there' },
  missed: {
    sign: 'M6 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8M3.200 8.800l5.600-5.600',
    says: 'missed: nobody took it in time',
  },
  'no instance': { sign: 'M2 3h8v6H2zM2 9l8-6M2 3l8 6', says: 'no instance: nobody who could was there' },
  limit: { sign: 'M2 2.500h8M6 10V5M3.500 7.500L6 5l2.500 2.500', says: 'limit: more were missed than may run late' },
}

export interface RibbonProps {
  readonly data: RibbonData
  /** Opens the details of a schedule; without it names are only names. */
  readonly onOpen?: (row: RibbonRow) => void
}

/** What is looked at. */
interface Chosen {
  readonly key: string
  readonly step: number
}

/** Schedules along time: who won which tick, what has no run and why, and what comes next. */
export function Ribbon({ data, onOpen }: RibbonProps) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const [chosen, setChosen] = useState<Chosen>()
  const isBeside = width >= 640 && onOpen !== undefined
  const plot = isBeside ? width - labelWidth : width
  const [from, upto] = [Date.parse(data.from), Date.parse(data.upto)]
  const row = data.rows.find(({ key }) => key === chosen?.key)
  const cell = row?.cells.find(({ step }) => step === chosen?.step)
  return (
    <div class="ribbon" data-beside={isBeside || undefined}>
      <div class="ribbon-box" ref={box}>
        {width > 0 && (
          <>
            <div class="ribbon-row">
              {isBeside && <span class="ribbon-label muted small">UTC</span>}
              <TimeAxis from={from} upto={upto} width={plot} />
            </div>
            {data.rows.map((one) => (
              <Row
                key={one.key}
                row={one}
                data={data}
                width={plot}
                onOpen={onOpen}
                chosen={chosen?.key === one.key ? chosen.step : undefined}
                onChoose={(step) => setChosen(step === undefined ? undefined : { key: one.key, step })}
              />
            ))}
          </>
        )}
      </div>
      <p class="ribbon-told small" role="status">
        {row && cell ? (
          <Told row={row} cell={cell} data={data} />
        ) : (
          <span class="muted">Choose a tick to read about it: with the mouse, or with the arrows in a row.</span>
        )}
      </p>
      <Legend data={data} />
    </div>
  )
}

interface RowProps {
  readonly row: RibbonRow
  readonly data: RibbonData
  readonly width: number
  readonly onOpen: RibbonProps['onOpen']
  readonly chosen: number | undefined
  readonly onChoose: (step: number | undefined) => void
}

function Row({ row, data, width, onOpen, chosen, onChoose }: RowProps) {
  const [from, upto] = [Date.parse(data.from), Date.parse(data.upto)]
  const x = scaleOf(from, upto, width)
  const stepWidth = (data.step / (upto - from)) * width
  const move = (event: KeyboardEvent) => {
    const at = row.cells.findIndex(({ step }) => step === chosen)
    const last = row.cells.length - 1
    const to = { ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key]
    if (event.key === 'Escape' && chosen !== undefined) onChoose(undefined)
    else if (to === undefined || !row.cells[to]) return
    else onChoose(row.cells[to].step)
    event.preventDefault()
  }
  return (
    <div class="ribbon-row">
      {onOpen && (
        <button type="button" class="ribbon-label ribbon-open" onClick={() => onOpen(row)}>
          <Name text={row.name} most={21} />
          <span class="muted small">
            {shorten(row.rule, 24)}
            {row.pausedAt && <b class="ribbon-paused"> paused</b>}
          </span>
        </button>
      )}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields */}
      <div
        class="ribbon-plot"
        role="group"
        // The arrows go from tick to tick.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it takes the arrows
        tabIndex={0}
        aria-label={`Ticks of ${shorten(row.name, 60)}: ${inWords(row)}`}
        onKeyDown={move}
        onClick={({ target }) => {
          const step = (target as Element).closest('[data-step]')?.getAttribute('data-step')
          if (step) onChoose(Number(step) === chosen ? undefined : Number(step))
        }}
      >
        <svg width={width} height={height} aria-hidden="true">
          <g class="ribbon-grid">
            {roundTimes(from, upto, width).map((time) => (
              <path key={time} d={`M${x(time)} 0v${height}`} />
            ))}
          </g>
          {row.changes.map((change) => (
            <Change key={change.at} change={change} row={row} x={x} />
          ))}
          {row.bands.map((band) => (
            <Band key={band.first} band={band} x={x} least={stepWidth} />
          ))}
          {row.coming.map(({ step, at, ticks, note }) => {
            const title = `${momentOf(at)}${ticks > 1 ? ` and ${formatNumber(ticks - 1)} more` : ''} to come${note ? `: ${note}` : ''}`
            const left = x(from + step * data.step)
            return (
              <g key={at} class="ribbon-coming" data-noted={note !== null || undefined}>
                <title>{title}</title>
                {ticks === 1 ? (
                  <circle cx={x(Date.parse(at))} cy={lane} r="4" />
                ) : (
                  <>
                    <rect x={left + 1} y={lane - 4} width={Math.max(1, stepWidth - 2)} height="8" rx="4" />
                    <Count n={ticks} at={left + stepWidth / 2} room={stepWidth} />
                  </>
                )}
              </g>
            )
          })}
          {row.cells.map((cell) => (
            <g
              key={cell.step}
              class="ribbon-cell"
              data-step={cell.step}
              data-chosen={cell.step === chosen || undefined}
            >
              <title>{titleOf(cell)}</title>
              <Cell cell={cell} x={x} left={x(from + cell.step * data.step)} width={stepWidth} upto={upto} />
            </g>
          ))}
          <NowLine x={x} />
        </svg>
      </div>
    </div>
  )
}

interface CellProps {
  readonly cell: RibbonCell
  readonly x: (time: number) => number
  readonly left: number
  readonly width: number
  readonly upto: number
}

function Cell({ cell, x, left, width }: CellProps) {
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
    <text class="ribbon-count" x={at} y={height - 4}>
      {text}
    </text>
  )
}

function GapSign({ reason, at }: { readonly reason: Reason; readonly at: number }) {
  return <path class="ribbon-gap-sign" transform={`translate(${at - 6} ${lane - 6})`} d={reasons[reason].sign} />
}

interface BandProps {
  readonly band: RibbonRow['bands'][number]
  readonly x: (time: number) => number
  readonly least: number
}

/** Ticks without a run, one after the other. */
function Band({ band: { first, last, ticks, reason }, x, least }: BandProps) {
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
function Change({ change, row, x }: ChangeProps) {
  const [left, right] = [x(Date.parse(change.at)), x(Date.parse(change.upto))]
  const says = changeInWords(change, row.timezone)
  return (
    <g class="ribbon-change">
      <title>{says}</title>
      {right - left > 1 && <rect x={left} y="0" width={right - left} height={height} />}
      <path d={`M${left} 0v${height}`} />
      <text x={left + 3} y={height - 4}>
        {change.kind === 'skipped' ? `${shortTimes(change)} skipped` : `${shortTimes(change)} twice`}
      </text>
    </g>
  )
}

function NowLine({ x }: { readonly x: (time: number) => number }) {
  const at = x(useNow())
  return <path class="ribbon-now" d={`M${at} 0v${height}`} />
}

/** What is known of the ticks that were chosen. */
function Told({ row, cell, data }: { readonly row: RibbonRow; readonly cell: RibbonCell; readonly data: RibbonData }) {
  const winners = new Set(cell.runs.map(({ instance }) => instance))
  const contenders = row.members.filter(({ instance, since }) => since <= cell.last && !winners.has(instance))
  return (
    <>
      <b>
        <Name text={row.name} />
      </b>{' '}
      {cell.ticks === 1
        ? `tick ${momentOf(cell.at)}`
        : `${cell.about ? 'about ' : ''}${formatNumber(cell.ticks)} ticks, ${momentOf(cell.at)} to ${momentOf(cell.last)}`}
      {cell.runs.map(({ instance, state, n, extra }, at) => (
        <span key={`${instance} ${state} ${extra}`}>
          {at > 0 ? '; ' : ': '}
          {cell.ticks > 1 && `${formatNumber(n)} `}
          {extra && 'asked for, '}
          {state}
          {instance && (
            <>
              {' by '}
              <Who id={instance} data={data} />
            </>
          )}
        </span>
      ))}
      {cell.gaps.map(({ reason, ticks }) => (
        <span key={reason}>
          ; {formatNumber(ticks)} without a run, {reasons[reason].says}
        </span>
      ))}
      {cell.about && '; the instances are a sample'}
      {cell.late !== null && `. Began ${formatDuration(cell.late)} after its tick`}
      {cell.attempt > 1 && `, attempt ${cell.attempt}`}
      {cell.ticks === 1 &&
        cell.startedAt &&
        cell.endedAt &&
        `, took ${formatDuration(Date.parse(cell.endedAt) - Date.parse(cell.startedAt))}`}
      {contenders.length > 0 && cell.runs.length > 0 && (
        <>
          . It could also have been{' '}
          {contenders.slice(0, 12).map(({ instance }, at) => (
            <span key={instance}>
              {at > 0 && ' '}
              <InstanceMark id={instance} />
            </span>
          ))}
          {contenders.length > 12 && ` and ${contenders.length - 12} more`}
        </>
      )}
    </>
  )
}

/** An instance by its letter, and its machine where that is still known. */
export function Who({ id, data }: { readonly id: string; readonly data: Pick<RibbonData, 'instances'> }) {
  const known = data.instances.find((one) => one.id === id)
  return <InstanceMark id={id} label={known ? `${known.host}/${known.osPid}` : id} />
}

function Legend({ data }: { readonly data: RibbonData }) {
  const seen = new Set(
    data.rows.flatMap(({ cells }) => cells.flatMap(({ runs }) => runs.map(({ instance }) => instance))),
  )
  const gaps = new Set(
    data.rows.flatMap(({ cells, bands }) => [
      ...bands.map(({ reason }) => reason),
      ...cells.flatMap((cell) => cell.gaps.map(({ reason }) => reason)),
    ]),
  )
  const winners = [...seen].filter((id) => id !== null).slice(0, 24)
  if (winners.length === 0 && gaps.size === 0) return null
  return (
    <ul class="ribbon-legend small" aria-label="What the signs mean">
      {winners.map((id) => (
        <li key={id}>
          <Who id={id} data={data} />
        </li>
      ))}
      {[...gaps].map((reason) => (
        <li key={reason} class="muted">
          <svg width="12" height="12" aria-hidden="true">
            <path class="ribbon-gap-sign" d={reasons[reason].sign} />
          </svg>
          {reason}
        </li>
      ))}
      <li class="muted">
        <Shape tone="bad" /> failed
      </li>
      <li class="muted">
        <Shape tone="busy" /> runs
      </li>
      <li class="muted">
        <svg width="12" height="12" class="ribbon-coming" aria-hidden="true">
          <circle cx="6" cy="6" r="4" />
        </svg>
        to come
      </li>
    </ul>
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

function titleOf(cell: RibbonCell): string {
  const { ticks, about, at, last, runs, gaps, late, attempt } = cell
  const when =
    ticks === 1
      ? momentOf(at)
      : `${momentOf(at)} to ${momentOf(last)}, ${about ? 'about ' : ''}${formatNumber(ticks)} ticks`
  const won = runs.map(({ instance, state, n, extra }) => {
    const who = instance ? ` by ${markOf(instance).letter}` : ''
    return `${ticks > 1 ? `${formatNumber(n)} ` : ''}${extra ? 'asked for, ' : ''}${state}${who}`
  })
  const without = gaps.map(
    ({ reason, ticks: n }) => `${ticks > 1 ? `${formatNumber(n)} ` : ''}without a run: ${reason}`,
  )
  const more = [late !== null && `${formatDuration(late)} late`, attempt > 1 && `attempt ${attempt}`].filter(Boolean)
  return [when, ...won, ...without, ...more].join('\n')
}

/** What a row says to those who do not see it. */
function inWords({ cells, bands, coming, rule }: RibbonRow): string {
  const ran = cells.reduce((sum, { ticks, gaps }) => sum + ticks - gaps.reduce((n, gap) => n + gap.ticks, 0), 0)
  const without =
    cells.reduce((sum, { gaps }) => sum + gaps.reduce((n, gap) => n + gap.ticks, 0), 0) +
    bands.reduce((sum, { ticks }) => sum + ticks, 0)
  const next = coming.reduce((sum, { ticks }) => sum + ticks, 0)
  return `${rule}; ${formatNumber(ran)} ran, ${formatNumber(without)} without a run, ${formatNumber(next)} to come`
}

export function changeInWords(change: RibbonRow['changes'][number], timezone: string | null): string {
  const of = timezone ? ` in ${timezone}` : ''
  return change.kind === 'skipped'
    ? `The clocks go forward${of}: there is no ${shortTimes(change)}`
    : `The clocks go back${of}: ${shortTimes(change)} comes twice`
}

function shortTimes({ local: [begin, end] }: RibbonRow['changes'][number]): string {
  return `${begin.slice(0, 5)}–${end.slice(0, 5)}`
}

export function momentOf(at: string): string {
  return formatClock(Date.parse(at))
}
