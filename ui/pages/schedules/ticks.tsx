import './ticks.css'
import { useRef } from 'preact/hooks'
import { formatNumber } from '../../format.js'
import { labelWidth, leastStep, Ribbon } from '../../graphics/ribbon.js'
import { momentOf, type RibbonData, type RibbonRow, reasons, Who } from '../../graphics/ribbon-words.js'
import { useView } from '../../live.js'
import { Name } from '../../parts/name.js'
import { Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { None, Span, When } from '../../parts/time.js'
import { setParams, useParams } from '../../routes.js'
import { useWidth } from '../../use-width.js'

const windows = [
  ['1', '1 min'],
  ['5', '5 min'],
  ['30', '30 min'],
  ['120', '2 h'],
  ['720', '12 h'],
  ['2880', '48 h'],
] as const
const usual = '5'
/** So that a window of some width asks what most windows ask. */
const stepCounts = [18, 24, 28, 35, 42, 52, 60, 70, 84, 100, 120]
const mostRows = 200

/** The ticks of the schedules of the page along time. */
export function Ticks() {
  const { namespace, search, page = '1' } = useParams<'schedules'>()
  const { minutes, choose } = useMinutes()
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const ribbon = useView('ribbon', { namespace, search, page: Number(page) || 1, minutes, steps: stepsOf(width) })
  const { data } = ribbon
  const pages = data ? Math.max(1, Math.ceil(data.count / data.rowsOfPage)) : 1
  return (
    <div ref={box}>
      <Panel
        title="Ticks"
        live={ribbon}
        tools={choose}
        twin={data && <TicksTable data={data} />}
        says="Each dot is a tick, with the letter of the instance that won it. Where there are too many to be drawn, a bar tells how many they are and who won most; the strip below it, who won how much."
      >
        {data && <Ribbon data={data} onOpen={open} />}
        {pages > 1 && data && (
          <nav class="row ribbon-pages small" aria-label="Pages of schedules">
            <button type="button" class="button" disabled={data.page <= 1} onClick={() => turn(data.page - 1)}>
              Before
            </button>
            <span class="muted">
              {formatNumber((data.page - 1) * data.rowsOfPage + 1)}–
              {formatNumber((data.page - 1) * data.rowsOfPage + data.rows.length)} of {formatNumber(data.count)}, by
              name
            </span>
            <button type="button" class="button" disabled={data.page >= pages} onClick={() => turn(data.page + 1)}>
              Next
            </button>
          </nav>
        )}
      </Panel>
    </div>
  )
}

function turn(page: number): void {
  setParams({ page: page === 1 ? undefined : String(page) })
}

function open({ name, namespace }: RibbonRow): void {
  setParams({ schedule: name, of: namespace }, 'push')
}

/** How long ago the ribbon begins, kept in the address, and the buttons that choose it. */
export function useMinutes() {
  const { minutes: given = usual } = useParams<'schedules'>()
  const minutes = windows.some(([value]) => value === given) ? given : usual
  const choose = (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot stand in a row
    <div class="row ribbon-windows" role="group" aria-label="How long">
      {windows.map(([value, says]) => (
        <button
          key={value}
          type="button"
          class="button bare"
          aria-pressed={value === minutes}
          onClick={() => setParams({ minutes: value === usual ? undefined : value })}
        >
          {says}
        </button>
      ))}
    </div>
  )
  return { minutes: Number(minutes), choose }
}

/** How many steps fit into a panel of this width, so that each has room for a letter. */
export function stepsOf(width: number, hasLabels = true): number {
  const plot = (width || innerWidth * 0.8) - 34 - (hasLabels && width >= 674 ? labelWidth : 0)
  return stepCounts.findLast((count) => count * leastStep <= plot) ?? stepCounts[0]!
}

interface TickRow {
  readonly id: string
  readonly name: string
  readonly at: string
  readonly last: string
  readonly ticks: number
  readonly about: boolean
  readonly what: RibbonRow['cells'][number]['runs']
  readonly gaps: RibbonRow['cells'][number]['gaps']
  readonly late: number | null
  readonly note: string | null
}

/** The same as a table: what was, the latest first, and below it what comes. */
export function TicksTable({ data }: { readonly data: RibbonData }) {
  const past = data.rows.flatMap(({ key, name, cells, bands }): TickRow[] => [
    ...cells.map((cell) => ({ ...cell, id: `${key} ${cell.step}`, name, what: cell.runs, note: null })),
    ...bands.map(({ first, last, ticks, reason }) => ({
      id: `${key} ${first}`,
      name,
      at: first,
      last,
      ticks,
      about: false,
      what: [],
      gaps: [{ reason, ticks }],
      late: null,
      note: null,
    })),
  ])
  const coming = data.rows.flatMap(({ key, name, coming }) =>
    coming.map(
      ({ at, ticks, note }): TickRow => ({
        id: `${key} to come ${at}`,
        name,
        at,
        last: at,
        ticks,
        about: false,
        what: [],
        gaps: [],
        late: null,
        note: note ?? 'to come',
      }),
    ),
  )
  past.sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
  coming.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
  const rows = [...past.slice(0, mostRows), ...coming.slice(0, mostRows)]
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
              {ticks > 1 && at !== last && ` to ${momentOf(last)}`}
            </>
          ),
          sort: ({ at }) => Date.parse(at),
        },
        { title: 'Schedule', cell: ({ name }) => <Name text={name} />, sort: ({ name }) => name, wide: true },
        {
          title: 'Ticks',
          cell: ({ ticks, about }) => `${about ? 'about ' : ''}${formatNumber(ticks)}`,
          sort: ({ ticks }) => ticks,
          align: 'end',
        },
        {
          title: 'What became of them',
          cell: ({ what, gaps, note, ticks }) => (
            <span class="row">
              {what.map(({ instance, state, n, extra }) => (
                <span class="row" key={`${instance} ${state} ${extra}`}>
                  {ticks > 1 && formatNumber(n)}
                  <State is={state} />
                  {extra && <span class="muted">asked for</span>}
                  {instance && <Who id={instance} data={data} />}
                </span>
              ))}
              {gaps.map(({ reason, ticks }) => (
                <span key={reason} title={reasons[reason].says}>
                  {formatNumber(ticks)} without a run: {reason}
                </span>
              ))}
              {note && <span class="muted">{note}</span>}
            </span>
          ),
        },
        {
          title: 'Late',
          cell: ({ late }) => (late === null ? <None /> : <Span ms={late} />),
          sort: ({ late }) => late,
          align: 'end',
          spare: 2,
        },
      ]}
      empty={<p class="muted small ribbon-empty">No tick in this time.</p>}
    />
  )
}
