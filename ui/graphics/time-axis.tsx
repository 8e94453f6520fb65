import './time-axis.css'
import { formatClock, formatDay } from '../format.js'
import { zoneLabel, zoneOffsetMs } from '../zone.js'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const stepSizes = [
  ...[5, 10, 15, 30].map((n) => n * second),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * minute),
  ...[1, 2, 3, 6, 12, 24].map((n) => n * hour),
]
const minPixels = 84

/** Returns a function that converts a time to a position on a timeline that is `width` pixels wide. */
export function scaleOf(from: number, until: number, width: number): (time: number) => number {
  return (time) => Math.max(0, Math.min(width, ((time - from) / (until - from)) * width))
}

export interface AxisProps {
  readonly from: number
  readonly until: number
  readonly width: number
}

/** Label in front of an axis. */
export function ZoneLabel({ time }: { readonly time: number }) {
  return <span class="muted small">{zoneLabel(time)}</span>
}

/** Axis with labels at round times in the chosen time zone. */
export function TimeAxis({ from, until, width }: AxisProps) {
  const x = scaleOf(from, until, width)
  return (
    <svg class="time-axis" width={width} height={20} aria-hidden="true">
      {roundTimes(from, until, width).map((time) => (
        <g key={time} transform={`translate(${x(time)} 0)`}>
          <path d="M0 15v5" stroke="var(--line-strong)" />
          <text y="12" text-anchor={x(time) < 24 ? 'start' : x(time) > width - 24 ? 'end' : 'middle'}>
            {labelOf(time, until - from)}
          </text>
        </g>
      ))}
    </svg>
  )
}

/** Vertical lines at the times that the axis shows. */
export function TimeGrid({ from, until, width, height }: AxisProps & { readonly height: number }) {
  const x = scaleOf(from, until, width)
  return (
    <g stroke="var(--line)" stroke-dasharray="1 3">
      {roundTimes(from, until, width).map((time) => (
        <path key={time} d={`M${x(time)} 0v${height}`} />
      ))}
    </g>
  )
}

/** Returns round times that are far enough apart for their labels. */
function roundTimes(from: number, until: number, width: number): number[] {
  const space = stepSizes.find((one) => (one / (until - from)) * width >= minPixels) ?? stepSizes.at(-1)!
  const times: number[] = []
  const offset = zoneOffsetMs(from)
  for (let time = Math.ceil((from + offset) / space) * space - offset; time < until; time += space) times.push(time)
  return times
}

function labelOf(time: number, span: number): string {
  if ((time + zoneOffsetMs(time)) % (24 * hour) === 0) return formatDay(time)
  return span <= 20 * minute ? formatClock(time) : formatClock(time).slice(0, 5)
}
