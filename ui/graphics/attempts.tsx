import './attempts.css'
import { useRef } from 'preact/hooks'
import { useNow } from '../clock.js'
import { formatClock, formatDuration } from '../format.js'
import { markOf } from '../marks.js'
import { type Owner, OwnerMark } from '../parts/instance-mark.js'
import { State, toneOf, wordOf } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { None } from '../parts/time.js'
import { useWidth } from '../use-size.js'
import type { ViewData } from '../wire.js'

export type Job = NonNullable<ViewData<'job'>['job']>

interface Attempt extends Owner {
  readonly number: number
  readonly state: 'running' | 'done' | 'failed' | 'crashed' | 'ended'
  readonly from: string | null
  /** End of the attempt. Null while the attempt is running. */
  readonly to: string | null
  readonly error: string | null
}

/** Returns the recorded failed attempts and the last attempt. */
function attemptsOf(job: Job): Attempt[] {
  const failed = job.attempts.map(
    ({ attempt, claimedAt, at, instance, instanceName, error }): Attempt => ({
      number: attempt,
      state: error.code === 'WORKER_CRASHED' ? 'crashed' : 'failed',
      from: claimedAt,
      to: at,
      instance,
      instanceName,
      error: error.message,
    }),
  )
  const isListed = job.claimedAt !== null && failed.some(({ from }) => from === job.claimedAt)
  if (job.claimedAt === null || isListed || job.state === 'ready' || job.state === 'waiting') return failed
  const state = job.state === 'running' || job.state === 'done' ? job.state : 'ended'
  const { instance, instanceName } = job
  const number = job.failed + job.crashes + 1
  return [...failed, { number, state, from: job.claimedAt, to: job.endedAt, instance, instanceName, error: null }]
}

const rowHeight = 26
const labelWidth = 86
/** Space to the right of the last bar for the bar's duration. */
const durationWidth = 62
const axisHeight = 30
const tickSteps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5,
  216e5, 432e5, 864e5, 1728e5, 6048e5,
]

/**
 * A job's timeline: when it was enqueued, its attempts, the pauses between attempts, and the start of the next attempt.
 */
export function AttemptTimeline({ job }: { readonly job: Job }) {
  const box = useRef<HTMLDivElement>(null)
  const width = Math.max(280, useWidth(box))
  const now = useNow()
  const attempts = attemptsOf(job)
  const enqueued = Date.parse(job.enqueuedAt)
  const isOver = job.endedAt !== null
  const next = job.state === 'waiting' && job.runAt ? Date.parse(job.runAt) : undefined
  // Omits a distant next attempt. For example, an attempt in a week would leave no space for the past attempts.
  const happened = isOver ? Date.parse(job.endedAt!) : now
  const isFar = next !== undefined && next - happened > 3 * Math.max(60_000, happened - enqueued)
  const end = Math.max(happened, next === undefined || isFar ? 0 : next, enqueued + 1)
  const scale = (time: number) =>
    labelWidth +
    ((Math.min(end, Math.max(enqueued, time)) - enqueued) / (end - enqueued)) * (width - labelWidth - durationWidth)
  const step = tickSteps.find((one) => (end - enqueued) / one <= width / 110) ?? tickSteps.at(-1)!
  const ticks = Array.from({ length: Math.floor((end - enqueued) / step) + 1 }, (_, at) => at * step)
  const height = axisHeight + Math.max(1, attempts.length) * rowHeight + (next === undefined ? 0 : rowHeight) + 8
  const nextY = axisHeight + attempts.length * rowHeight
  const bottom = height - 4
  return (
    <div ref={box} class="attempts">
      <svg width={width} height={height} role="img" aria-label={describe(job, attempts)}>
        {ticks.map((tick) => (
          <g key={tick}>
            <path d={`M${scale(enqueued + tick)} ${axisHeight - 8}V${bottom}`} stroke="var(--line)" />
            <text class="attempts-time" x={scale(enqueued + tick)} y={13} text-anchor={tick === 0 ? 'start' : 'middle'}>
              {tick === 0 ? formatClock(enqueued) : `+${formatDuration(tick)}`}
            </text>
          </g>
        ))}
        <g fill="var(--raised)" stroke="var(--accent)" stroke-width="2">
          <circle cx={scale(enqueued)} cy={axisHeight - 8} r="3.5" />
        </g>
        {attempts.length === 0 && next === undefined && (
          <text class="attempts-label" x={labelWidth + 10} y={axisHeight + 17}>
            no attempt yet
          </text>
        )}
        {attempts.map((attempt, at) => {
          const y = axisHeight + at * rowHeight
          const from = scale(attempt.from ? Date.parse(attempt.from) : enqueued)
          const to = scale(attempt.to ? Date.parse(attempt.to) : now)
          const w = Math.max(3, to - from)
          const before = at === 0 ? enqueued : Date.parse(attempts[at - 1]!.to ?? job.enqueuedAt)
          const lasted = (attempt.to ? Date.parse(attempt.to) : now) - Date.parse(attempt.from ?? job.enqueuedAt)
          return (
            <g key={`${at} ${attempt.from}`}>
              <text class="attempts-label" x="0" y={y + 17}>
                {attempt.number}. {attempt.state}
              </text>
              <path class="attempts-pause" d={`M${scale(before)} ${y + 13}H${from}`} />
              <rect class={toneOf(attempt.state)} x={from} y={y + 4} width={w} height="18" rx="3" fill="var(--tone)" />
              {attempt.state === 'crashed' && (
                <path d={`M${to - 4} ${y + 7}l8 12m0-12l-8 12`} stroke="var(--text)" stroke-width="1.6" />
              )}
              {attempt.instance && w > 24 && (
                <Letter id={attempt.instance} name={attempt.instanceName} x={from + 3} y={y + 5} />
              )}
              <text class="attempts-time" x={from + w + 7} y={y + 17}>
                {formatDuration(Math.max(0, lasted))}
              </text>
            </g>
          )
        })}
        {next !== undefined && (
          <g>
            <text class="attempts-label" x="0" y={nextY + 17}>
              next
            </text>
            <path
              class="attempts-pause"
              d={`M${scale(Date.parse(attempts.at(-1)?.to ?? job.enqueuedAt))} ${nextY + 13}H${scale(next)}`}
            />
            <path d={`M${scale(next) - 5} ${nextY + 7}v12l6-6z`} fill="var(--wait)" />
            <text class="attempts-time" x={scale(next) + 7} y={nextY + 17}>
              {next <= now ? 'due' : `in ${formatDuration(next - now)}`}
            </text>
          </g>
        )}
        {!isOver && (
          <path d={`M${scale(now)} ${axisHeight - 10}V${bottom}`} stroke="var(--accent)" stroke-width="1.5" />
        )}
      </svg>
    </div>
  )
}

interface LetterProps extends Readonly<Record<'x' | 'y', number>> {
  readonly id: string
  readonly name: string | null
}

function Letter({ id, name, x, y }: LetterProps) {
  const { letter, style } = markOf(id, name)
  return (
    <g style={style}>
      <rect fill="var(--mark)" x={x} y={y} width={letter.length * 7 + 9} height="16" rx="3" stroke="var(--raised)" />
      <text class="attempts-letter" x={x + (letter.length * 7 + 9) / 2} y={y + 12} text-anchor="middle">
        {letter}
      </text>
    </g>
  )
}

function describe({ enqueuedAt, state }: Job, attempts: readonly Attempt[]): string {
  const texts = attempts.map(({ number, state: is }) => `attempt ${number} ${is}`).join(', ')
  return `Enqueued at ${formatClock(Date.parse(enqueuedAt))}; ${texts || 'no attempts yet'}; current state: ${wordOf(state)}. Press t to show a table.`
}

export function AttemptTable({ job }: { readonly job: Job }) {
  return (
    <Table
      label="Attempts"
      rows={attemptsOf(job)}
      keyOf={({ number, from }) => `${number} ${from}`}
      columns={[
        { title: 'Attempt', cell: ({ number }) => number, align: 'end' },
        { title: 'Outcome', cell: ({ state }) => <State word={state} /> },
        {
          title: 'Instance',
          cell: (row) => (row.instance ? <OwnerMark owner={row} /> : <None text="no longer known" />),
        },
        { title: 'From', time: ({ from }) => from },
        { title: 'To', time: ({ to }) => to },
        {
          title: 'Duration',
          cell: ({ from, to }) => (from && to ? formatDuration(Date.parse(to) - Date.parse(from)) : <None />),
          align: 'end',
        },
        { title: 'Error', cell: ({ error }) => (error ? <bdi>{error.slice(0, 200)}</bdi> : <None />), wide: true },
      ]}
      empty={<p class="muted padded-text">No attempt yet.</p>}
    />
  )
}
