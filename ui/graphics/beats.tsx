import './beats.css'
import { useRef } from 'preact/hooks'
import { now, useNow } from '../clock.js'
import { formatDuration } from '../format.js'
import { InstanceMark } from '../parts/mark.js'
import { State } from '../parts/state.js'
import { useWidth } from '../use-width.js'
import type { Says } from '../wire.js'
import { roundTimes, scaleOf, TimeAxis } from './time-axis.js'

type Instance = Says<'instances'>['rows'][number]

/** So far back a strip reaches. */
const spanMs = 120_000
const height = 26
const labelWidth = 210
const mostShown = 24
const mostKept = 400
/** Whoever heard of an instance lately may not have heard of its very last beat. */
const graceMs = 2_500

/** When each instance was heard, as far as this page has seen: nobody writes that down. */
const heard = new Map<string, number[]>()

function remember(rows: readonly Instance[]): void {
  for (const { id, heardAt } of rows) {
    if (heardAt === null) continue
    const time = Date.parse(heardAt)
    const known = heard.get(id) ?? []
    if (known.at(-1) === time) continue
    heard.set(id, [...known, time].slice(-200))
  }
  while (heard.size > mostKept) heard.delete(heard.keys().next().value!)
}

/** How long an instance has been silent, of the time after which it is given up; null where nobody knows. */
export function silenceOf({ heardAt, expiryMs }: Pick<Instance, 'heardAt' | 'expiryMs'>, time: number) {
  if (heardAt === null) return null
  const ms = Math.max(0, time - Date.parse(heardAt))
  return { ms, isLong: ms > expiryMs / 2 + graceMs, isOver: ms > expiryMs }
}

/** When each instance was heard lately: a line for each, a stroke for each time. */
export function Beats({ rows }: { readonly rows: readonly Instance[] }) {
  remember(rows)
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const isBeside = width >= 560
  const plot = isBeside ? width - labelWidth : width
  const time = useNow()
  const from = time - spanMs
  return (
    <div class="beats" data-beside={isBeside || undefined} ref={box}>
      {width > 0 && (
        <>
          <div class="beats-row">
            {isBeside && <span class="muted small">UTC</span>}
            <TimeAxis from={from} upto={time} width={plot} />
          </div>
          {rows.slice(0, mostShown).map((row) => (
            <div class="beats-row" key={row.id}>
              <span class="beats-label">
                <InstanceMark id={row.id} label={`${row.host}/${row.osPid}`} />
                {(!row.alive || row.state !== 'open') && <State is={stateOf(row)} />}
              </span>
              <Line row={row} from={from} upto={time} width={plot} />
            </div>
          ))}
          {rows.length > mostShown && <p class="muted small">and {rows.length - mostShown} more below</p>}
        </>
      )}
    </div>
  )
}

interface LineProps {
  readonly row: Instance
  readonly from: number
  readonly upto: number
  readonly width: number
}

function Line({ row, from, upto, width }: LineProps) {
  const x = scaleOf(from, upto, width)
  const beats = (heard.get(row.id) ?? []).filter((time) => time >= from && time <= upto)
  const silence = silenceOf(row, upto)
  const [opened, began] = [Date.parse(row.openedAt), Date.parse(row.lifeSince)]
  const last = row.heardAt === null ? undefined : Date.parse(row.heardAt)
  const middle = height / 2
  return (
    <svg width={width} height={height} role="img" aria-label={`${row.host}/${row.osPid}: ${silenceInWords(row, upto)}`}>
      <g class="beats-grid">
        {roundTimes(from, upto, width).map((time) => (
          <path key={time} d={`M${x(time)} 0v${height}`} />
        ))}
      </g>
      <path
        class="beats-life"
        d={`M${x(opened)} ${middle}H${x(row.alive || last === undefined ? (row.alive ? upto : opened) : last)}`}
      />
      {last !== undefined && silence?.isLong && (
        <path class="beats-silence" data-over={silence.isOver || undefined} d={`M${x(last)} ${middle}H${x(upto)}`} />
      )}
      {beats.map((time) => (
        <path key={time} class="beats-beat" d={`M${x(time)} ${middle - 6}v12`} />
      ))}
      {opened > from && (
        <g class="beats-edge">
          <path d={`M${x(opened)} 2v${height - 4}`} />
          <text x={x(opened) + 4} y="9">
            opened
          </text>
        </g>
      )}
      {began > from && began - opened > 1_000 && (
        <g class="beats-edge">
          <path d={`M${x(began)} 2v${height - 4}`} />
          <text x={x(began) + 4} y="9">
            life {row.lives}
          </text>
        </g>
      )}
    </svg>
  )
}

/** How an instance is, in a word: first whether it lives. */
export function stateOf({ alive, state }: Pick<Instance, 'alive' | 'state'>): string {
  if (!alive) return 'gone'
  return state === 'open' ? 'alive' : state
}

export function silenceInWords(row: Instance, time = now()): string {
  if (!row.alive) return 'gone: nobody vouches for it'
  const silence = silenceOf(row, time)
  if (!silence) return 'alive; this role may not see when it was heard'
  return `heard ${formatDuration(Math.round(silence.ms / 100) * 100)} ago; given up after ${formatDuration(row.expiryMs)}`
}
