import './heartbeats.css'
import { useRef } from 'preact/hooks'
import { now, useNow } from '../clock.js'
import { formatDuration } from '../format.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { State } from '../parts/state.js'
import { useWidth } from '../use-width.js'
import type { ViewData } from '../wire.js'
import { roundTimes, scaleOf, TimeAxis } from './time-axis.js'

type Instance = ViewData<'instances'>['rows'][number]

/** So far back a strip reaches. */
const spanMs = 120_000
const height = 26
const labelWidth = 210
const maxShown = 24
const maxRemembered = 400
/** Whoever heard of an instance lately may not have heard of its very last beat. */
const reportDelayMs = 2_500

/** When each instance was heard, as far as this page has seen: nobody writes that down. */
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

/** How long an instance has been silent, of the time after which it is given up; null where nobody knows. */
export function silenceOf({ lastSeenAt, expiryMs }: Pick<Instance, 'lastSeenAt' | 'expiryMs'>, time: number) {
  if (lastSeenAt === null) return null
  const ms = Math.max(0, time - Date.parse(lastSeenAt))
  return { ms, isLong: ms > expiryMs / 2 + reportDelayMs, isOver: ms > expiryMs }
}

/** When each instance was heard lately: a line for each, a stroke for each time. */
export function Heartbeats({ rows }: { readonly rows: readonly Instance[] }) {
  remember(rows)
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const hasLabelColumn = width >= 560
  const plot = hasLabelColumn ? width - labelWidth : width
  const time = useNow()
  const from = time - spanMs
  return (
    <div class="heartbeats" data-label-column={hasLabelColumn || undefined} ref={box}>
      {width > 0 && (
        <>
          <div class="heartbeats-row">
            {hasLabelColumn && <span class="muted small">UTC</span>}
            <TimeAxis from={from} until={time} width={plot} />
          </div>
          {rows.slice(0, maxShown).map((row) => (
            <div class="heartbeats-row" key={row.id}>
              <span class="heartbeats-label">
                <InstanceMark id={row.id} label={`${row.host}/${row.osPid}`} />
                {(!row.alive || row.state !== 'open') && <State word={stateText(row)} />}
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

interface LineProps {
  readonly row: Instance
  readonly from: number
  readonly until: number
  readonly width: number
}

function Line({ row, from, until, width }: LineProps) {
  const x = scaleOf(from, until, width)
  const heartbeats = (seenTimes.get(row.id) ?? []).filter((time) => time >= from && time <= until)
  const silence = silenceOf(row, until)
  const [opened, epochSince] = [Date.parse(row.openedAt), Date.parse(row.epochSince)]
  const last = row.lastSeenAt === null ? undefined : Date.parse(row.lastSeenAt)
  const middle = height / 2
  return (
    <svg width={width} height={height} role="img" aria-label={`${row.host}/${row.osPid}: ${silenceText(row, until)}`}>
      <g class="heartbeats-grid">
        {roundTimes(from, until, width).map((time) => (
          <path key={time} d={`M${x(time)} 0v${height}`} />
        ))}
      </g>
      <path
        class="heartbeats-presence"
        d={`M${x(opened)} ${middle}H${x(row.alive || last === undefined ? (row.alive ? until : opened) : last)}`}
      />
      {last !== undefined && silence?.isLong && (
        <path
          class="heartbeats-silence"
          data-over={silence.isOver || undefined}
          d={`M${x(last)} ${middle}H${x(until)}`}
        />
      )}
      {heartbeats.map((time) => (
        <path key={time} class="heartbeats-stroke" d={`M${x(time)} ${middle - 6}v12`} />
      ))}
      {opened > from && (
        <g class="heartbeats-edge">
          <path d={`M${x(opened)} 2v${height - 4}`} />
          <text x={x(opened) + 4} y="9">
            opened
          </text>
        </g>
      )}
      {epochSince > from && epochSince - opened > 1_000 && (
        <g class="heartbeats-edge">
          <path d={`M${x(epochSince)} 2v${height - 4}`} />
          <text x={x(epochSince) + 4} y="9">
            epoch {row.reconnects + 1}
          </text>
        </g>
      )}
    </svg>
  )
}

/** How an instance is, in a word: first whether it lives. */
export function stateText({ alive, state }: Pick<Instance, 'alive' | 'state'>): string {
  if (!alive) return 'gone'
  return state === 'open' ? 'alive' : state
}

export function silenceText(row: Instance, time = now()): string {
  if (!row.alive) return 'gone: nobody vouches for it'
  const silence = silenceOf(row, time)
  if (!silence) return 'alive; this role may not see when it was heard'
  return `heard ${formatDuration(Math.round(silence.ms / 100) * 100)} ago; given up after ${formatDuration(row.expiryMs)}`
}
