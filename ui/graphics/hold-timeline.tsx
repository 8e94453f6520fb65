import './hold-timeline.css'
import { formatMoment, formatNumber } from '../format.js'
import { Name } from '../parts/name.js'
import { Table } from '../parts/table.js'
import { Age } from '../parts/time.js'
import type { ViewData } from '../wire.js'

type HoldTimelineData = ViewData<'hold-timeline'>
type HoldTimelineRow = HoldTimelineData['rows'][number]

/** So many percent fill the lower half: three calls that wait. */
const fullWaitPercent = 300
const halfHeight = 12

interface HoldTimelineProps {
  readonly timeline: HoldTimelineData
  readonly onOpen: (key: string) => void
}

/** The past of many names: above the line how much of the time each was held, below it how many waited. */
export function HoldTimeline({ timeline, onOpen }: HoldTimelineProps) {
  const from = Date.parse(timeline.from)
  const to = from + timeline.columns * timeline.columnMs
  return (
    <div class="hold-timeline">
      <p class="hold-timeline-legend small muted">
        <span class="hold-timeline-key held" aria-hidden="true" /> held, up to the whole of the time
        <span class="hold-timeline-key waited" aria-hidden="true" /> waited for: the deeper, the more at once
      </p>
      <ul>
        {timeline.rows.map((strip) => (
          <li key={strip.key}>
            <button type="button" class="hold-timeline-name" onClick={() => onOpen(strip.key)}>
              <Name text={nameOf(strip)} maxLength={30} />
            </button>
            <svg
              class="hold-timeline-plot"
              viewBox={`0 0 ${timeline.columns} ${2 * halfHeight}`}
              preserveAspectRatio="none"
              role="img"
              aria-label={ariaText(strip)}
            >
              <path class="held" d={areaOf(strip.held, above)} />
              <path class="waited" d={areaOf(strip.waited, below)} />
              <path class="line" d={`M0 ${halfHeight}H${timeline.columns}`} />
            </svg>
          </li>
        ))}
      </ul>
      <div class="hold-timeline-axis small muted" aria-hidden="true">
        {hoursOf(from, to).map((time) => (
          <span key={time} style={{ insetInlineStart: `${((time - from) / (to - from)) * 100}%` }}>
            {formatMoment(time, time).slice(0, 5)}
          </span>
        ))}
      </div>
    </div>
  )
}

/** The same as a table. */
export function HoldTimelineTable({ timeline, onOpen }: HoldTimelineProps) {
  const wholeMs = timeline.columns * timeline.columnMs
  return (
    <Table
      label="How long names were held and waited for"
      rows={timeline.rows}
      total={timeline.names}
      keyOf={({ key }) => key}
      onOpen={({ key }) => onOpen(key)}
      columns={[
        { title: 'Name', cell: (strip) => <Name text={nameOf(strip)} />, sort: nameOf, wide: true },
        { title: 'Held', cell: ({ heldMs }) => <Age ms={heldMs} />, sort: ({ heldMs }) => heldMs, align: 'end' },
        {
          title: 'Of the time',
          cell: ({ heldMs }) => `${Math.min(100, Math.round((heldMs / wholeMs) * 100))} %`,
          align: 'end',
        },
        {
          title: 'Waited',
          cell: ({ waitedMs }) => <Age ms={waitedMs} />,
          sort: ({ waitedMs }) => waitedMs,
          align: 'end',
        },
        { title: 'Most at once', cell: ({ waited }) => maxOf(waited), align: 'end', spare: 1 },
      ]}
      empty={null}
    />
  )
}

const nameOf = ({ label, key }: HoldTimelineRow) => label ?? `key ${key}`
const above = (percent: number) => halfHeight - (halfHeight - 1) * (Math.min(percent, 100) / 100)
const below = (percent: number) =>
  halfHeight + (halfHeight - 1) * Math.sqrt(Math.min(percent, fullWaitPercent) / fullWaitPercent)

function maxOf(waited: readonly number[]): string {
  const most = Math.max(0, ...waited) / 100
  return most === 0 ? '–' : formatNumber(Math.round(most * 10) / 10)
}

function ariaText(strip: HoldTimelineRow): string {
  const heldIn = strip.held.filter((percent) => percent > 0).length
  const waitedIn = strip.waited.filter((percent) => percent > 0).length
  const name = nameOf(strip).slice(0, 60)
  return `${name}: held in ${heldIn} of ${strip.held.length} spans of time, waited for in ${waitedIn}`
}

/** Steps along the columns, closed at the line in the middle. Neighbours that are alike are one step. */
function areaOf(columns: readonly number[], y: (percent: number) => number): string {
  let path = ''
  for (let at = 0; at < columns.length; ) {
    let end = at + 1
    while (end < columns.length && columns[end] === columns[at]) end++
    if (columns[at]! > 0) path += `M${at} ${halfHeight}V${y(columns[at]!).toFixed(1)}H${end}V${halfHeight}Z`
    at = end
  }
  return path
}

/** Whole hours, or tens of minutes, so that about six are told. */
function hoursOf(from: number, to: number): number[] {
  const hourMs = 3_600_000
  const stepMs = ([1 / 6, 1, 2, 3, 6, 8].find((hours) => (to - from) / (hours * hourMs) <= 6) ?? 12) * hourMs
  const times: number[] = []
  // The last one would stand out at the edge.
  for (let time = Math.ceil(from / stepMs) * stepMs; time < to - (to - from) * 0.06; time += stepMs) times.push(time)
  return times
}
