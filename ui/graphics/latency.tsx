import './latency.css'
import { useEffect, useReducer, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import { formatDuration } from '../format.js'
import { Table } from '../parts/table.js'
import { None, When } from '../parts/time.js'
import { colourOf } from '../theme.js'
import { useWidth } from '../use-size.js'
import type { ViewData } from '../wire.js'
import { intlZone } from '../zone.js'

type Latencies = ViewData<'latencies'>
export type Measure = 'waited' | 'took'

/** Data for one of the chart's intervals. */
interface Point {
  readonly at: string
  readonly jobs: number
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}

/** Returns all of a queue's intervals, including intervals in which no job ended. */
export function pointsOf({ from, columnMs, columns, queues }: Latencies, queue: string, measure: Measure): Point[] {
  const points = new Map(queues.find((one) => queueIdOf(one) === queue)?.points.map((point) => [point.column, point]))
  return Array.from({ length: columns }, (_, column) => {
    const point = points.get(column)
    const percentiles = point?.[measure]
    return {
      at: new Date(Date.parse(from) + column * columnMs).toISOString(),
      jobs: point?.jobs ?? 0,
      p50: percentiles?.p50Ms ?? null,
      p95: percentiles?.p95Ms ?? null,
      p99: percentiles?.p99Ms ?? null,
    }
  })
}

export const queueIdOf = ({ namespace, queue }: Latencies['queues'][number]) => JSON.stringify([namespace, queue])

const height = 186
const lines = [
  { label: 'p50', colour: '--busy', dash: [] },
  { label: 'p95', colour: '--warn', dash: [6, 3] },
  { label: 'p99', colour: '--bad', dash: [2, 3] },
] as const

/** Chart of percentiles over time, on a logarithmic scale from milliseconds to hours. */
export function LatencyChart({ points, label }: { readonly points: readonly Point[]; readonly label: string }) {
  const box = useRef<HTMLDivElement>(null)
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(undefined)
  const width = useWidth(box)
  const [theme, redraw] = useReducer<number, unknown>((count) => count + 1, 0)
  const data = dataOf(points)
  const latest = useRef(data)
  latest.current = data
  useEffect(() => {
    addEventListener('themechange', redraw)
    return () => removeEventListener('themechange', redraw)
  }, [])
  useEffect(() => {
    if (width === 0) return
    let isOver = false
    void import('uplot').then(({ default: Plot }) => {
      if (isOver) return
      chart.current = new Plot(optionsFor(width), latest.current, place.current!)
    })
    return () => {
      isOver = true
      chart.current?.destroy()
      chart.current = undefined
    }
  }, [width, theme])
  useEffect(() => chart.current?.setData(data), [points])
  const isEmpty = points.every(({ p50 }) => p50 === null)
  return (
    <figure class="latency">
      <figcaption class="latency-legend muted small" aria-hidden="true">
        {lines.map(({ label: name, colour, dash }) => (
          <span key={name} class="inline">
            <svg width="22" height="8" aria-hidden="true">
              <line
                x1="0"
                x2="22"
                y1="4"
                y2="4"
                style={{ stroke: `var(${colour})` }}
                stroke-width="2"
                stroke-dasharray={dash.join(' ')}
              />
            </svg>
            {name}
          </span>
        ))}
      </figcaption>
      <div ref={box} class="latency-box">
        <div ref={place} role="img" aria-label={`${label}. ${describe(points)} Press t to show a table.`} />
        {isEmpty && <p class="latency-empty muted">No jobs ended in this period.</p>}
      </div>
    </figure>
  )
}

function dataOf(points: readonly Point[]): uPlot.AlignedData {
  // Replaces 0 by a small value, because a logarithmic scale has no zero.
  const of = (line: 'p50' | 'p95' | 'p99') =>
    points.map((point) => (point[line] === null ? null : Math.max(0.1, point[line])))
  return [points.map(({ at }) => Date.parse(at) / 1_000), of('p50'), of('p95'), of('p99')]
}

function describe(points: readonly Point[]): string {
  const last = points.findLast(({ p50 }) => p50 !== null)
  if (!last) return 'No jobs ended in this period.'
  const { p50, p95, p99 } = last
  return `Latest values: p50 ${formatDuration(p50!)}, p95 ${formatDuration(p95!)}, p99 ${formatDuration(p99!)}.`
}

function optionsFor(width: number): uPlot.Options {
  const axis = {
    stroke: colourOf('--muted'),
    font: '11.5px ui-sans-serif, system-ui, sans-serif',
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { stroke: colourOf('--line'), width: 1, size: 4 },
  }
  return {
    width,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 20, 0, 0],
    tzDate: (seconds) => new Date(new Date(seconds * 1_000).toLocaleString('en-US', { timeZone: intlZone() })),
    scales: {
      y: {
        distr: 3,
        range: (_, min, max) => [
          10 ** Math.floor(Math.log10(Math.max(0.1, min ?? 1))),
          10 ** Math.ceil(Math.log10(Math.max(1, max ?? 1) * 1.01)),
        ],
      },
    },
    axes: [
      {
        ...axis,
        space: 64,
        values: [
          [3600 * 24, '{D} {MMM}', null, null, null, null, null, null, 1],
          [60, '{HH}:{mm}', null, null, null, null, null, null, 1],
        ],
      },
      {
        ...axis,
        size: 56,
        // Draws lines only at powers of ten.
        filter: (_, splits) => splits.map((ms) => (Number.isInteger(Math.log10(ms)) ? ms : null)),
        values: (_, splits) =>
          splits.map((ms) => (ms !== null && Number.isInteger(Math.log10(ms)) ? formatDuration(ms) : '')),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: name, dash }) => ({
        label,
        stroke: colourOf(name),
        width: 1.6,
        dash: [...dash],
        points: { size: 4 },
        spanGaps: false,
      })),
    ],
  }
}

/** Table of the intervals in which jobs ended, latest first. */
export function LatencyTable({ points, label }: { readonly points: readonly Point[]; readonly label: string }) {
  const cell = (of: 'p50' | 'p95' | 'p99') => ({
    title: of,
    cell: (point: Point) => (point[of] === null ? <None /> : formatDuration(point[of])),
    sort: (point: Point) => point[of],
    align: 'end' as const,
  })
  return (
    <Table
      label={label}
      rows={points.filter(({ jobs }) => jobs > 0).reverse()}
      keyOf={({ at }) => at}
      columns={[
        { title: 'From', cell: ({ at }) => <When at={at} />, wide: true },
        { title: 'Jobs', number: ({ jobs }) => jobs },
        cell('p50'),
        cell('p95'),
        cell('p99'),
      ]}
      empty={<p class="muted padded-text">No jobs ended in this period.</p>}
    />
  )
}
