import './job-flow.css'
import { useRef } from 'preact/hooks'
import { formatNumber } from '../format.js'
import { Shape, toneOf, wordOf } from '../parts/state.js'
import { hrefOf } from '../routes.js'
import { useWidth } from '../use-size.js'
import type { ViewData } from '../wire.js'

type Queue = ViewData<'queues'>['rows'][number]

/** Largest count that is shown exactly. Larger counts are shown as this number with a plus sign. */
const maxCounted = 10_000

export interface JobCount {
  readonly jobs: number
  /** Whether there are more jobs than `jobs`. */
  readonly isMore: boolean
}

export interface Flow {
  readonly counts: Readonly<Record<CountedState, JobCount>>
  /** Jobs per minute. */
  readonly rates: Queue['perMinute']
}

const countedStates = [
  'ready',
  'running',
  'scheduled',
  'retrying',
  'parked',
  'budgeted',
  'blocked',
  'buried',
  'cancelled',
  'expired',
  'discarded',
] as const
const ratedEvents = ['enqueued', 'done', 'retried', 'buried', 'cancelled', 'expired', 'discarded'] as const
type CountedState = (typeof countedStates)[number]

/** Returns a count for display. The database stops counting at one job above the limit. */
export function countOf(jobs: number): JobCount {
  return { jobs: Math.min(maxCounted, jobs), isMore: jobs > maxCounted }
}

/** Returns the total counts and rates for the listed queues. `areMore`: there are queues that are not listed. */
export function flowOf(queues: readonly Queue[], areMore: boolean): Flow {
  const counts = countedStates.map((state) => [
    state,
    total(
      queues.map((queue) => countOf(queue[state])),
      areMore,
    ),
  ])
  const rates = ratedEvents.map((event) => [event, queues.reduce((sum, { perMinute }) => sum + perMinute[event], 0)])
  return { counts: Object.fromEntries(counts), rates: Object.fromEntries(rates) }
}

/** Returns the sum. `areMore`: there are queues without a count. */
export function total(counts: readonly JobCount[], areMore = false): JobCount {
  const isMore = areMore || counts.some(({ isMore }) => isMore)
  return { jobs: counts.reduce((sum, { jobs }) => sum + jobs, 0), isMore }
}

export function formatJobs({ jobs, isMore }: JobCount): string {
  return `${formatNumber(jobs)}${isMore ? '+' : ''}`
}

/** Returns a count that fits into a box of the drawing, such as `9,999` or `50k+`. */
function formatShort({ jobs, isMore }: JobCount): string {
  if (jobs < maxCounted) return formatJobs({ jobs, isMore })
  return `${formatNumber(Math.floor(jobs / 1_000))}k${isMore ? '+' : ''}`
}

const formatShortRate = (perMinute: number) => `${formatShort({ jobs: perMinute, isMore: false })}/min`

export const formatRate = (perMinute: number) => `${formatNumber(perMinute)}/min`

type Box = Readonly<Record<'x' | 'y' | 'w' | 'h', number>>

interface Layout {
  readonly width: number
  readonly height: number
  readonly boxes: Readonly<
    Record<'enqueued' | 'waiting' | 'ready' | 'running' | 'done' | 'buried' | 'cancelled' | 'discarded', Box>
  >
  /** Lines between the boxes, and the positions of the rates next to these lines. */
  readonly lines: readonly {
    readonly path: string
    readonly rate?: keyof Flow['rates']
    readonly at?: readonly [x: number, y: number, anchor: 'start' | 'middle' | 'end']
  }[]
}

const wide: Layout = {
  width: 720,
  height: 268,
  boxes: {
    enqueued: { x: 0, y: 22, w: 104, h: 56 },
    ready: { x: 176, y: 22, w: 128, h: 56 },
    waiting: { x: 176, y: 128, w: 128, h: 132 },
    running: { x: 382, y: 22, w: 128, h: 56 },
    done: { x: 592, y: 22, w: 128, h: 56 },
    buried: { x: 592, y: 98, w: 128, h: 48 },
    cancelled: { x: 592, y: 155, w: 128, h: 48 },
    discarded: { x: 592, y: 212, w: 128, h: 48 },
  },
  lines: [
    { path: 'M104 50H170' },
    { path: 'M126 50V180Q126 190 136 190H170' },
    { path: 'M240 128V84' },
    { path: 'M304 50H376' },
    { path: 'M510 50H586', rate: 'done', at: [548, 43, 'middle'] },
    { path: 'M446 78V184Q446 194 436 194H310', rate: 'retried', at: [378, 187, 'middle'] },
    { path: 'M552 50V112Q552 122 562 122H586', rate: 'buried', at: [546, 117, 'end'] },
    { path: 'M552 112V169Q552 179 562 179H586', rate: 'cancelled', at: [546, 174, 'end'] },
    { path: 'M552 169V226Q552 236 562 236H586', rate: 'discarded', at: [546, 231, 'end'] },
  ],
}

const narrow: Layout = {
  width: 320,
  height: 470,
  boxes: {
    enqueued: { x: 0, y: 0, w: 130, h: 52 },
    ready: { x: 0, y: 92, w: 130, h: 56 },
    waiting: { x: 186, y: 54, w: 134, h: 132 },
    running: { x: 0, y: 214, w: 130, h: 56 },
    done: { x: 0, y: 346, w: 104, h: 52 },
    buried: { x: 186, y: 292, w: 134, h: 48 },
    cancelled: { x: 186, y: 356, w: 134, h: 48 },
    discarded: { x: 186, y: 420, w: 134, h: 48 },
  },
  lines: [
    { path: 'M65 52V86' },
    { path: 'M130 26H230Q240 26 240 36V48' },
    { path: 'M186 120H136' },
    { path: 'M65 148V208' },
    { path: 'M65 270V340', rate: 'done', at: [58, 312, 'end'] },
    { path: 'M130 232H230Q240 232 240 222V192', rate: 'retried', at: [232, 225, 'end'] },
    { path: 'M130 252H146Q156 252 156 262V306Q156 316 166 316H180', rate: 'buried', at: [150, 300, 'end'] },
    { path: 'M156 306V370Q156 380 166 380H180', rate: 'cancelled', at: [150, 364, 'end'] },
    { path: 'M156 370V434Q156 444 166 444H180', rate: 'discarded', at: [150, 428, 'end'] },
  ],
}

/** Flow of jobs through their states. Each state links to the jobs in that state. */
export function JobFlow({ flow }: { readonly flow: Flow }) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const { counts, rates } = flow
  const layout = width >= wide.width ? wide : narrow
  const { boxes } = layout
  const search = (terms: string) => hrefOf('jobs', { search: terms })
  const waiting = waitReasons.map(({ state }) => counts[state])
  return (
    <div ref={box} class="flow">
      {/* biome-ignore lint/a11y/useSemanticElements: a group of links, drawn */}
      <svg
        width={layout.width}
        height={layout.height}
        viewBox={`0 0 ${layout.width} ${layout.height}`}
        role="group"
        aria-label="Jobs by state. Press t to show a table."
      >
        <defs>
          <marker id="flow-tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" orient="auto">
            <path d="M1 1l5 3-5 3" class="graph-line" />
          </marker>
        </defs>
        {layout.lines.map(({ path, rate, at }) => (
          <g key={path}>
            <path d={path} class="graph-line" marker-end="url(#flow-tip)" />
            {rate && at && rates[rate] > 0 && (
              <g fill={rate === 'buried' ? 'var(--bad)' : 'var(--muted)'} font-size="12">
                <text x={at[0]} y={at[1]} text-anchor={at[2]}>
                  {formatShortRate(rates[rate])}
                </text>
              </g>
            )}
          </g>
        ))}
        <g transform={`translate(${boxes.enqueued.x} ${boxes.enqueued.y})`}>
          <text x="12" y="23" fill="var(--muted)">
            enqueued
          </text>
          <text x="12" y="43" class="flow-count quiet">
            {formatShortRate(rates.enqueued)}
          </text>
          <rect class="flow-source" width={boxes.enqueued.w} height={boxes.enqueued.h} rx="6" />
        </g>
        {(['ready', 'running', 'done', 'buried', 'cancelled', 'discarded'] as const).map((state) => (
          <Node
            key={state}
            box={boxes[state]}
            href={search(`state:${wordOf(state)}`)}
            word={state}
            caption={state === 'done' ? formatShortRate(rates.done) : formatShort(counts[state])}
            isSome={state === 'done' ? rates.done > 0 : counts[state].jobs > 0}
          />
        ))}
        <Node
          box={boxes.waiting}
          href={search('state:waiting')}
          word="waiting"
          caption={formatShort(total(waiting))}
          isSome={waiting.some(({ jobs }) => jobs > 0)}
        />
        <g transform={`translate(${boxes.waiting.x} ${boxes.waiting.y})`}>
          {waitReasons.map(({ state, word, text }, at) => (
            <a key={state} href={search(`state:${word}`)} font-size="12">
              <rect x="6" y={52 + at * 19} width={boxes.waiting.w - 12} height="19" rx="3" fill="transparent" />
              <text x="12" y={66 + at * 19}>
                {text}
              </text>
              <text x={boxes.waiting.w - 12} y={66 + at * 19} text-anchor="end" font-weight="560">
                {formatShort(counts[state])}
              </text>
            </a>
          ))}
        </g>
      </svg>
    </div>
  )
}

/** Reasons why jobs wait. Each reason has a counted state, a word for the search, and a label. */
export const waitReasons = [
  { state: 'scheduled', word: 'scheduled', text: 'scheduled' },
  { state: 'retrying', word: 'retrying', text: 'retrying' },
  { state: 'parked', word: 'in-lane', text: 'in a lane' },
  { state: 'budgeted', word: 'in-budget', text: 'in a budget' },
  { state: 'blocked', word: 'blocked', text: 'blocked' },
] as const

interface NodeProps {
  readonly box: Box
  readonly href: string
  readonly word: string
  readonly caption: string
  readonly isSome: boolean
}

function Node({ box: { x, y, w, h }, href, word, caption, isSome }: NodeProps) {
  const tone = toneOf(word)
  const isLow = h < 56
  return (
    <a href={href} class={`flow-node ${isSome ? tone : 'quiet'}`}>
      <g transform={`translate(${x} ${y})`}>
        <rect width={w} height={h} rx="6" />
        <svg x="12" y={isLow ? 10 : 13} width="10" height="10" overflow="visible" aria-hidden="true">
          <Shape tone={tone} />
        </svg>
        <text x="27" y={isLow ? 19 : 22} fill="var(--muted)">
          {wordOf(word)}
        </text>
        <text x="12" y={isLow ? 38 : 43} class="flow-count">
          {caption}
        </text>
      </g>
    </a>
  )
}
