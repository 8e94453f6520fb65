import './time-chart.css'
import { useEffect, useReducer, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import { formatDuration, formatNumber } from '../format.js'
import { Shape, type Tone } from '../parts/state.js'
import { colourOf } from '../theme.js'
import { useWidth } from '../use-size.js'
import { intlZone } from '../zone.js'

/** Time after which the page tries to load the chart's code again if the server could not be reached. */
const retryMs = 3_000

export interface Line {
  readonly label: string
  readonly colour: `--${string}`
  readonly dash: readonly number[]
  /** One value for each time. Null if there is no value. */
  readonly values: readonly (number | null)[]
}

/** Event that may explain a change in the lines. */
export interface Mark {
  readonly at: string
  readonly tone: Tone
  readonly text: string
}

interface TimeChartProps {
  readonly title: string
  /** Accessible name. */
  readonly label: string
  /** Start and end of the time axis, in milliseconds since 1970. */
  readonly from: number
  readonly until: number
  /** Times of the values, in milliseconds since 1970. */
  readonly times: readonly number[]
  readonly lines: readonly Line[]
  readonly marks: readonly Mark[]
  /** Whether the values are durations on a logarithmic scale from milliseconds to hours. Otherwise, the scale begins at 0. */
  readonly isDuration?: boolean
  readonly height: number
  readonly empty: string
}

const axisWidth = 56
const padding = 20

/** Chart of lines over time. */
export function TimeChart(props: TimeChartProps) {
  const { title, label, from, until, lines, marks, isDuration = false, height, empty } = props
  const box = useRef<HTMLDivElement>(null)
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(undefined)
  const width = useWidth(box)
  const [theme, redraw] = useReducer<number, unknown>((count) => count + 1, 0)
  const latest = useRef(props)
  latest.current = props
  useEffect(() => {
    addEventListener('themechange', redraw)
    return () => removeEventListener('themechange', redraw)
  }, [])
  useEffect(() => {
    if (width === 0) return
    let isOver = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const draw = async () => {
      try {
        const { default: Plot } = await import('uplot')
        if (!isOver) chart.current = new Plot(optionsFor(width, latest), dataOf(latest.current), place.current!)
      } catch {
        // The server cannot be reached. The page already shows this, so no error is reported here.
        if (!isOver) timer = setTimeout(draw, retryMs)
      }
    }
    void draw()
    return () => {
      isOver = true
      clearTimeout(timer)
      chart.current?.destroy()
      chart.current = undefined
    }
  }, [width, theme, isDuration, height])
  useEffect(() => chart.current?.setData(dataOf(latest.current)), [lines])
  const isEmpty = lines.every(({ values }) => values.every((value) => !value))
  const format = isDuration ? formatDuration : formatValue
  return (
    <figure class="time-chart">
      <figcaption class="time-chart-head muted small" aria-hidden="true">
        <span class="time-chart-title">{title}</span>
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
      <div ref={box} class="time-chart-box" style={{ minHeight: `${height}px` }}>
        <div
          ref={place}
          role="img"
          aria-label={`${label}. ${isEmpty ? empty : describe(lines, format)} Press t to show a table.`}
        />
        {width > 0 &&
          marks.map(({ at, tone, text }) => {
            const share = (Date.parse(at) - from) / (until - from)
            if (share < 0 || share > 1) return null
            const left = `${axisWidth + share * (width - axisWidth - padding)}px`
            return (
              <span key={`${at} ${text}`} class={`time-chart-mark ${tone}`} style={{ left }} title={text}>
                <Shape tone={tone} />
              </span>
            )
          })}
        {isEmpty && <p class="time-chart-empty muted">{empty}</p>}
      </div>
    </figure>
  )
}

function formatValue(value: number): string {
  return value >= 10_000 ? `${formatNumber(Math.round(value / 100) / 10)}k` : formatNumber(Number(value.toPrecision(3)))
}

function dataOf({ times, lines, isDuration }: TimeChartProps): uPlot.AlignedData {
  // Replaces 0 with a small value, because a logarithmic scale has no zero.
  const shown = (value: number | null) => (value === null || !isDuration ? value : Math.max(0.1, value))
  return [times.map((at) => at / 1_000), ...lines.map(({ values }) => values.map(shown))]
}

function describe(lines: readonly Line[], format: (value: number) => string): string {
  const last = lines.map(({ label, values }) => {
    const value = values.findLast((one) => one !== null)
    return value === undefined || value === null ? null : `${label} ${format(value)}`
  })
  return `Latest values: ${last.filter((text) => text !== null).join(', ')}.`
}

/** Returns the indexes of the values without neighbours, which a line would not show. */
function isolated(values: readonly (number | null | undefined)[]): number[] {
  const isMissing = (at: number) => values[at] === null || values[at] === undefined
  return values.flatMap((_, at) => (!isMissing(at) && isMissing(at - 1) && isMissing(at + 1) ? [at] : []))
}

function optionsFor(width: number, latest: { readonly current: TimeChartProps }): uPlot.Options {
  const { isDuration, height, lines } = latest.current
  const axis = {
    stroke: colourOf('--muted'),
    // A whole number of pixels, because uPlot scales only the digits before `px` to the screen's resolution.
    font: '12px ui-sans-serif, system-ui, sans-serif',
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { stroke: colourOf('--line'), width: 1, size: 4 },
  }
  const durations: uPlot.Axis = {
    // Draws lines only at powers of ten.
    filter: (_, splits) => splits.map((ms) => (Number.isInteger(Math.log10(ms)) ? ms : null)),
    values: (_, splits) =>
      splits.map((ms) => (ms !== null && Number.isInteger(Math.log10(ms)) ? formatDuration(ms) : '')),
  }
  const rates: uPlot.Axis = { space: 28, values: (_, splits) => splits.map(formatValue) }
  return {
    width,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [12, padding, 0, 0],
    tzDate: (seconds) => new Date(new Date(seconds * 1_000).toLocaleString('en-US', { timeZone: intlZone() })),
    scales: {
      x: { range: () => [latest.current.from / 1_000, latest.current.until / 1_000] },
      y: isDuration
        ? {
            distr: 3,
            range: (_, min, max) => [
              10 ** Math.floor(Math.log10(Math.max(0.1, min ?? 1))),
              10 ** Math.ceil(Math.log10(Math.max(1, max ?? 1) * 1.01)),
            ],
          }
        : { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.05)] },
    },
    axes: [
      {
        ...axis,
        size: 30,
        space: 64,
        values: [
          [3600 * 24, '{D} {MMM}', null, null, null, null, null, null, 1],
          [60, '{HH}:{mm}', null, null, null, null, null, null, 1],
        ],
      },
      { ...axis, size: axisWidth, ...(isDuration ? durations : rates) },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: name, dash }, at) => ({
        label,
        stroke: colourOf(name),
        width: 1.6,
        dash: [...dash],
        points: {
          size: 5,
          show: false,
          fill: colourOf(name),
          filter: () => isolated(latest.current.lines[at]!.values),
        },
        spanGaps: false,
      })),
    ],
  }
}
