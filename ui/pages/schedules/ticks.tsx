import './ticks.css'
import { useRef } from 'preact/hooks'
import { formatNumber } from '../../format.js'
import { labelWidth, minStepWidth, TickTimeline } from '../../graphics/tick-timeline.js'
import {
  formatTick,
  InstanceLabel,
  reasonTexts,
  type TickTimelineCell,
  type TickTimelineData,
  type TickTimelineRow,
} from '../../graphics/tick-timeline-text.js'
import { useView } from '../../live.js'
import { Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { When } from '../../parts/time.js'
import { setParams, useParams } from '../../routes.js'
import { useWidth } from '../../use-size.js'

const windows = [
  ['1', '1 min'],
  ['5', '5 min'],
  ['30', '30 min'],
  ['120', '2 h'],
  ['720', '12 h'],
  ['2880', '48 h'],
] as const
const defaultMinutes = '5'
/** Allowed step counts. The list is short so that windows of similar width share one query. */
const stepCounts = [18, 24, 28, 35, 42, 52, 60, 70, 84, 100, 120]
const maxRows = 200

/** All schedules' tick timelines. */
export function Ticks() {
  const { namespace, search, page = '1' } = useParams<'schedules'>()
  const { minutes, choose } = useMinutes()
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const timeline = useView('tick-timeline', {
    namespace,
    search,
    page: Number(page) || 1,
    minutes,
    steps: stepsOf(width),
  })
  const { data } = timeline
  const pages = data ? Math.max(1, Math.ceil(data.count / data.rowsPerPage)) : 1
  return (
    <div ref={box}>
      <Panel
        title="Ticks"
        live={timeline}
        tools={choose}
        table={data && <TicksTable data={data} />}
        description="Each dot is a tick with the letter of the instance that claimed it. A bar represents several ticks: its letter is the instance with the most ticks, and the strip below shows the shares of all instances."
      >
        {data && <TickTimeline data={data} onOpen={open} />}
        {pages > 1 && data && (
          <nav class="row tick-timeline-pages small" aria-label="Pages of schedules">
            <button type="button" class="button" disabled={data.page <= 1} onClick={() => showPage(data.page - 1)}>
              Previous
            </button>
            <span class="muted">
              {formatNumber((data.page - 1) * data.rowsPerPage + 1)}–
              {formatNumber((data.page - 1) * data.rowsPerPage + data.rows.length)} of {formatNumber(data.count)}, by
              name
            </span>
            <button type="button" class="button" disabled={data.page >= pages} onClick={() => showPage(data.page + 1)}>
              Next
            </button>
          </nav>
        )}
      </Panel>
    </div>
  )
}

function showPage(page: number): void {
  setParams({ page: page === 1 ? undefined : String(page) })
}

function open({ name, namespace }: TickTimelineRow): void {
  setParams({ schedule: name, of: namespace }, 'push')
}

/** Returns the timeline's length, which the URL stores, and the buttons that change this length. */
export function useMinutes() {
  const { minutes: given = defaultMinutes } = useParams<'schedules'>()
  const minutes = windows.some(([value]) => value === given) ? given : defaultMinutes
  const choose = (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a flex row
    <div class="row tick-timeline-windows" role="group" aria-label="Period">
      {windows.map(([value, label]) => (
        <button
          key={value}
          type="button"
          class="button bare"
          aria-pressed={value === minutes}
          onClick={() => setParams({ minutes: value === defaultMinutes ? undefined : value })}
        >
          {label}
        </button>
      ))}
    </div>
  )
  return { minutes: Number(minutes), choose }
}

/** Returns the number of steps in a panel of this width, so that each step has space for a letter. */
export function stepsOf(width: number, hasLabels = true): number {
  const plot = (width || innerWidth * 0.8) - 34 - (hasLabels && width >= 674 ? labelWidth : 0)
  return stepCounts.findLast((count) => count * minStepWidth <= plot) ?? stepCounts[0]!
}

interface TickRow extends Pick<TickTimelineCell, 'at' | 'last' | 'ticks' | 'isEstimate' | 'runs' | 'gaps' | 'lateMs'> {
  readonly id: string
  readonly name: string
  readonly note: string | null
}

const noFacts = { isEstimate: false, runs: [], gaps: [], lateMs: null, note: null }

/** Table of past ticks (latest first) and upcoming ticks. */
export function TicksTable({ data }: { readonly data: TickTimelineData }) {
  const past = data.rows.flatMap(({ key, name, cells, bands }): TickRow[] => [
    ...cells.map((cell) => ({ ...cell, id: `${key} ${cell.step}`, name, note: null })),
    ...bands.map(({ first, last, ticks, reason }) => ({
      ...{ ...noFacts, id: `${key} ${first}`, name, at: first, last, ticks, gaps: [{ reason, ticks }] },
    })),
  ])
  const coming = data.rows.flatMap(({ key, name, upcoming }) =>
    upcoming.map(
      ({ at, ticks, note }): TickRow => ({
        ...{ ...noFacts, id: `${key} upcoming ${at}`, name, at, last: at, ticks, note: note ?? 'upcoming' },
      }),
    ),
  )
  past.sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
  coming.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
  const rows = [...past.slice(0, maxRows), ...coming.slice(0, maxRows)]
  return (
    <Table
      label="Ticks"
      rows={rows}
      total={past.length + coming.length}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Tick',
          cell: ({ at, last, ticks }) => (
            <>
              <When at={at} />
              {ticks > 1 && at !== last && ` to ${formatTick(last)}`}
            </>
          ),
          sort: ({ at }) => Date.parse(at),
        },
        { title: 'Schedule', name: ({ name }) => name, wide: true },
        {
          title: 'Ticks',
          number: ({ ticks }) => ticks,
          cell: ({ ticks, isEstimate }) => `${isEstimate ? 'about ' : ''}${formatNumber(ticks)}`,
        },
        {
          title: 'Outcome',
          cell: ({ runs, gaps, note, ticks }) => (
            <span class="row">
              {runs.map(({ instance, state, n, extra }) => (
                <span class="row" key={`${instance} ${state} ${extra}`}>
                  {ticks > 1 && formatNumber(n)}
                  <State word={state} />
                  {extra && <span class="muted">manual run</span>}
                  {instance && <InstanceLabel id={instance} data={data} />}
                </span>
              ))}
              {gaps.map(({ reason, ticks }) => (
                <span key={reason} title={reasonTexts[reason].text}>
                  {formatNumber(ticks)} without a run: {reason}
                </span>
              ))}
              {note && <span class="muted">{note}</span>}
            </span>
          ),
        },
        { title: 'Delay', age: ({ lateMs }) => lateMs, spare: 2 },
      ]}
      empty={<p class="muted small tick-timeline-empty">No ticks in this period.</p>}
    />
  )
}
