import './hold-timeline.css'
import { formatClock, formatNumber } from '../format.js'
import { Name } from '../parts/name.js'
import { Table } from '../parts/table.js'
import type { ViewData } from '../wire.js'
import { zoneOffsetMs } from '../zone.js'

type HoldTimelineData = ViewData<'hold-timeline'>
type HoldTimelineRow = HoldTimelineData['rows'][number]

/** Percentage at which the lower half is full, which corresponds to three waiting calls. */
const fullWaitPercent = 300
const halfHeight = 12

interface HoldTimelineProps {
  readonly timeline: HoldTimelineData
  readonly onOpen: (key: string) => void
}

/**
 * Names' recent history. The area above the line shows the share of time during which a name was held. The area below
 * the line shows the number of waiting calls.
 */
export function HoldTimeline({ timeline, onOpen }: HoldTimelineProps) {
  const from = Date.parse(timeline.from)
  const to = from + timeline.columns * timeline.columnMs
  return (
    <div class="hold-timeline">
      <p class="hold-timeline-legend row small muted">
        <span class="hold-timeline-key" style={{ background: 'var(--busy)' }} aria-hidden="true" /> held (full height =
        the whole interval)
        <span class="hold-timeline-key" style={{ background: 'var(--warn)' }} aria-hidden="true" /> waiting (deeper =
        more calls)
      </p>
      <ul>
        {timeline.rows.map((row) => (
          <li key={row.key}>
            <button type="button" class="hold-timeline-name hovers small" onClick={() => onOpen(row.key)}>
              <Name text={nameOf(row)} maxLength={30} />
            </button>
            <svg
              class="hold-timeline-plot"
              viewBox={`0 0 ${timeline.columns} ${2 * halfHeight}`}
              preserveAspectRatio="none"
              role="img"
              aria-label={ariaText(row)}
            >
              <path fill="var(--busy)" d={areaOf(row.held, above)} />
              <path fill="var(--warn)" d={areaOf(row.waited, below)} />
              <path class="hold-timeline-line" d={`M0 ${halfHeight}H${timeline.columns}`} />
            </svg>
          </li>
        ))}
      </ul>
      <div class="hold-timeline-axis small muted" aria-hidden="true">
        {hoursOf(from, to).map((time) => (
          <span key={time} style={{ insetInlineStart: `${((time - from) / (to - from)) * 100}%` }}>
            {formatClock(time).slice(0, 5)}
          </span>
        ))}
      </div>
    </div>
  )
}

export function HoldTimelineTable({ timeline, onOpen }: HoldTimelineProps) {
  const wholeMs = timeline.columns * timeline.columnMs
  return (
    <Table
      label="History"
      rows={timeline.rows}
      total={timeline.names}
      keyOf={({ key }) => key}
      onOpen={({ key }) => onOpen(key)}
      columns={[
        { title: 'Name', name: nameOf, wide: true },
        { title: 'Held', age: ({ heldMs }) => heldMs },
        {
          title: 'Share of time',
          cell: ({ heldMs }) => `${Math.min(100, Math.round((heldMs / wholeMs) * 100))} %`,
          align: 'end',
        },
        { title: 'Total wait', age: ({ waitedMs }) => waitedMs },
        { title: 'Max waiting', cell: ({ waited }) => maxOf(waited), align: 'end', spare: 1 },
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
  const max = Math.max(0, ...waited) / 100
  return max === 0 ? '–' : formatNumber(Math.round(max * 10) / 10)
}

function ariaText(row: HoldTimelineRow): string {
  const heldIn = row.held.filter((percent) => percent > 0).length
  const waitedIn = row.waited.filter((percent) => percent > 0).length
  const name = nameOf(row).slice(0, 60)
  return `${name}: held in ${heldIn} of ${row.held.length} intervals, with waiting calls in ${waitedIn}`
}

/** Returns the path around the area between the middle line and the values. Adjacent equal values form one step. */
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

/** Returns up to about six round times for the axis, such as full hours. */
function hoursOf(from: number, to: number): number[] {
  const hourMs = 3_600_000
  const stepMs = ([1 / 6, 1, 2, 3, 6, 8].find((hours) => (to - from) / (hours * hourMs) <= 6) ?? 12) * hourMs
  const times: number[] = []
  // Omits times close to the right edge, because their labels would be cut off.
  const offset = zoneOffsetMs(from)
  for (let time = Math.ceil((from + offset) / stepMs) * stepMs - offset; time < to - (to - from) * 0.12; time += stepMs)
    times.push(time)
  return times
}
