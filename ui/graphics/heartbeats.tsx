import './heartbeats.css'
import { useRef } from 'preact/hooks'
import { now, useNow } from '../clock.js'
import { formatDuration } from '../format.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { State } from '../parts/state.js'
import { useWidth } from '../use-size.js'
import type { ViewData } from '../wire.js'
import { type AxisProps, scaleOf, TimeAxis, TimeGrid, ZoneLabel } from './time-axis.js'

type Instance = ViewData<'instances'>['rows'][number]

/** Length of the timeline, in ms. */
const spanMs = 120_000
const height = 26
const labelWidth = 210
const maxShown = 24
/** Maximum width of a label such as `reconnected`. */
const noteWidth = 64
const maxRemembered = 400
/** Maximum time after which the server reports a heartbeat to the page. */
const reportDelayMs = 2_500

/** Heartbeats that this page has received, for each instance. The database stores only the last heartbeat. */
const seenTimes = new Map<string, number[]>()

function remember(rows: readonly Instance[]): void {
  for (const { id, lastSeenAt } of rows) {
    if (lastSeenAt === null) continue
    const time = Date.parse(lastSeenAt)
    const known = seenTimes.get(id) ?? []
    if (known.at(-1) === time) continue
    seenTimes.set(id, [...known, time].slice(-200))
  }
  while (seenTimes.size > maxRemembered) seenTimes.delete(seenTimes.keys().next().value!)
}

/** Returns the time since the last heartbeat, and whether it is unusually long. Null if this time is unknown. */
export function silenceOf({ lastSeenAt, expiryMs }: Pick<Instance, 'lastSeenAt' | 'expiryMs'>, time: number) {
  if (lastSeenAt === null) return null
  const ms = Math.max(0, time - Date.parse(lastSeenAt))
  return { ms, isLong: ms > expiryMs / 2 + reportDelayMs, isOver: ms > expiryMs }
}

/** Timelines of recent heartbeats, with one row for each instance and one stroke for each heartbeat. */
export function Heartbeats({ rows }: { readonly rows: readonly Instance[] }) {
  remember(rows)
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const hasLabelColumn = width >= 560
  const plot = hasLabelColumn ? width - labelWidth : width
  const time = useNow()
  const from = time - spanMs
  return (
    <div class="heartbeats time-rows" data-label-column={hasLabelColumn || undefined} ref={box}>
      {width > 0 && (
        <>
          <div class="time-row">
            {hasLabelColumn && <ZoneLabel time={time} />}
            <TimeAxis from={from} until={time} width={plot} />
          </div>
          {rows.slice(0, maxShown).map((row) => (
            <div class="time-row" key={row.id}>
              <span class="heartbeats-label between small">
                <InstanceMark id={row.id} name={row.name} />
                {stateText(row) !== 'alive' && <State word={stateText(row)} />}
              </span>
              <Line row={row} from={from} until={time} width={plot} />
            </div>
          ))}
          {rows.length > maxShown && <p class="muted small">and {rows.length - maxShown} more below</p>}
        </>
      )}
    </div>
  )
}

function Line({ row, from, until, width }: AxisProps & { readonly row: Instance }) {
  const x = scaleOf(from, until, width)
  const heartbeats = (seenTimes.get(row.id) ?? []).filter((time) => time >= from && time <= until)
  const silence = silenceOf(row, until)
  const [opened, epochSince] = [Date.parse(row.openedAt), Date.parse(row.epochSince)]
  const last = row.lastSeenAt === null ? undefined : Date.parse(row.lastSeenAt)
  const middle = height / 2
  const hasReconnected = epochSince > from && epochSince - opened > 1_000
  // Near the right edge, both labels are to the left of their lines.
  const hasRoom = !hasReconnected || x(epochSince) - x(opened) > 2 * noteWidth
  return (
    <svg width={width} height={height} role="img" aria-label={`${row.name}: ${silenceText(row, until)}`}>
      <TimeGrid from={from} until={until} width={width} height={height} />
      <path
        d={`M${x(opened)} ${middle}H${x(row.alive ? until : (last ?? opened))}`}
        stroke="var(--good)"
        stroke-width="1.5"
      />
      {last !== undefined && silence?.isLong && (
        <path
          d={`M${x(last)} ${middle}H${x(until)}`}
          stroke={silence.isOver ? 'var(--bad)' : 'var(--warn)'}
          stroke-width="5"
          stroke-dasharray="4 3"
        />
      )}
      <g stroke="var(--good)" stroke-width="2">
        {heartbeats.map((time) => (
          <path key={time} class="heartbeats-stroke" d={`M${x(time)} ${middle - 6}v12`} />
        ))}
      </g>
      {opened > from && <Edge x={x(opened)} text={hasRoom ? 'opened' : undefined} width={width} />}
      {hasReconnected && <Edge x={x(epochSince)} text="reconnected" width={width} />}
    </svg>
  )
}

interface EdgeProps {
  readonly x: number
  readonly text: string | undefined
  /** Width of the plot. */
  readonly width: number
}

function Edge({ x, text, width }: EdgeProps) {
  const isLast = x + noteWidth > width
  return (
    <g class="time-note" fill="var(--accent)">
      <path d={`M${x} 2v${height - 4}`} stroke="var(--accent)" stroke-width="1.5" />
      <text x={isLast ? x - 4 : x + 4} y="9" text-anchor={isLast ? 'end' : 'start'}>
        {text}
      </text>
    </g>
  )
}

/** Returns an instance's state. `gone` means that the heartbeat stopped without a clean shutdown. */
export function stateText({ alive, state }: Pick<Instance, 'alive' | 'state'>): string {
  if (!alive) return 'gone'
  return state === 'open' ? 'alive' : state
}

export function silenceText(row: Instance, time = now()): string {
  if (!row.alive) return 'lost: the heartbeat stopped without a clean shutdown'
  const silence = silenceOf(row, time)
  if (!silence) return 'alive; this database role may not read the time of the last heartbeat'
  return `${formatDuration(Math.round(silence.ms / 100) * 100)} ago; declared dead after ${formatDuration(row.expiryMs)}`
}
