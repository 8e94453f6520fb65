import './table.css'
import type { ComponentChildren } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { formatNumber } from '../format.js'
import { useShortcuts } from '../keyboard.js'
import { setParams } from '../routes.js'
import { useNarrow } from '../use-size.js'
import { Name } from './name.js'
import { Panel, type PanelProps } from './panel.js'
import { State } from './state.js'
import { Age, Elapsed, type Timestamp, When } from './time.js'

export interface Column<Row> {
  readonly title: string
  /** Content of the column's cells. In a narrow window, a cell that is null or empty is omitted. */
  readonly cell?: (row: Row) => ComponentChildren
  /** Returns a text, which is the default cell and sort key. */
  readonly text?: (row: Row) => string | number | null | undefined
  /** Returns a name that a user chose, which is the default cell (at most `maxLength` characters) and sort key. */
  readonly name?: (row: Row) => string
  readonly maxLength?: number
  /** Returns the word for a state, which is the default cell and sort key. */
  readonly state?: (row: Row) => string
  /** Returns a number, which is the default cell and sort key. */
  readonly number?: (row: Row) => number | null | undefined
  /** Returns a duration in ms, which is the default cell and sort key. The duration grows from its value at `from`. */
  readonly age?: (row: Row) => number | null | undefined
  readonly from?: string | undefined
  /** Returns a time. The default cell and sort key are the duration since this time. */
  readonly since?: (row: Row) => Timestamp
  /** Returns a time, which is the default cell and sort key. */
  readonly time?: (row: Row) => Timestamp
  /** Returns the sort key. A column without a sort key is not sortable. */
  readonly sort?: (row: Row) => string | number | null | undefined
  /** Alignment of the column. Numbers and durations are aligned to the right (`end`). */
  readonly align?: 'end'
  /** Whether the column takes up the remaining width. */
  readonly wide?: boolean
  /** Hides the column if the panel is narrower than 900 px (1) or 640 px (2). The row's details still show it. */
  readonly spare?: 1 | 2
}

interface CompleteColumn<Row> extends Column<Row> {
  readonly cell: (row: Row) => ComponentChildren
}

/** Adds a column's default cell, sort key and alignment. */
function complete<Row>(given: Column<Row>): CompleteColumn<Row> {
  const { text, name, maxLength, state, number, age, from, since, time, ...column } = given
  const end = { align: 'end' } as const
  if (text) return { cell: text, sort: text, ...column }
  if (name) return { cell: (row) => <Name text={name(row)} maxLength={maxLength} />, sort: name, ...column }
  if (state) return { cell: (row) => <State word={state(row)} />, sort: state, ...column }
  if (number) return { cell: number, sort: number, ...end, ...column }
  if (age) return { cell: (row) => <Age ms={age(row)} from={from} />, sort: age, ...end, ...column }
  if (since) {
    return { cell: (row) => <Elapsed at={since(row)} />, sort: (row) => negate(timeOf(since(row))), ...end, ...column }
  }
  if (time) return { cell: (row) => <When at={time(row)} />, sort: (row) => timeOf(time(row)), ...column }
  return { cell: () => null, ...column }
}

const timeOf = (at: Timestamp) => (at ? Date.parse(at) : null)
const negate = (value: number | null) => (value === null ? null : -value)

interface TableProps<Row> {
  /** Accessible name. */
  readonly label: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  readonly keyOf: (row: Row) => string
  /** Total number of rows if `rows` contains only the first rows. */
  readonly total?: number | undefined
  /** Called to open a row's details when the visitor clicks the row or presses Enter. */
  readonly onOpen?: ((row: Row) => void) | undefined
  /** Key of the row whose details are open. */
  readonly opened?: string | undefined
  /** Buttons at the end of each row. */
  readonly acts?: (row: Row) => ComponentChildren
  /** Rows that the visitor has selected. Without it, rows cannot be selected. */
  readonly selection?: Selection | undefined
  /** Content that replaces the table if there are no rows. */
  readonly empty: ComponentChildren
}

export interface Selection {
  readonly keys: ReadonlySet<string>
  readonly onChange: (keys: ReadonlySet<string>) => void
}

interface Order {
  readonly column: string
  readonly isReversed: boolean
}

const firstRows = 60

/** Shows rows of data as a table. In a narrow window, shows each row as a list of labels and values. */
export function Table<Row>(props: TableProps<Row>) {
  const { rows, empty } = props
  const columns = props.columns.map(complete)
  const [order, setOrder] = useState<Order>()
  const [isAll, setAll] = useState(false)
  const isNarrow = useNarrow()
  const body = useRef<HTMLElement>(null)
  useShortcuts([
    { key: '↑ ↓', text: 'Next or previous row', group: 'In a table' },
    { key: 'Home End', text: 'First or last row', group: 'In a table' },
    { key: 'Enter', text: 'Open the details of the selected row', group: 'In a table' },
  ])
  const sorted = useMemo(() => sortRows(rows, columns, order), [rows, props.columns, order])
  if (rows.length === 0) return <>{empty}</>
  const shown = isAll ? sorted : sorted.slice(0, firstRows)
  const total = Math.max(props.total ?? 0, rows.length)
  const tableProps = { ...props, columns, rows: shown, order, body }
  return (
    <>
      {isNarrow ? (
        <FactRows {...tableProps} setOrder={setOrder} />
      ) : (
        // A wide table scrolls. Without `tabIndex`, keyboard users could not scroll a table that contains no buttons.
        <div class="table-box" tabIndex={props.onOpen || columns.some(({ sort }) => sort) ? undefined : 0}>
          <RowTable {...tableProps} setOrder={setOrder} />
        </div>
      )}
      {shown.length < total && (
        <p class="table-foot muted small">
          {formatNumber(shown.length)} of {formatNumber(total)}
          {shown.length < rows.length && (
            <button type="button" class="button" onClick={() => setAll(true)}>
              Show {formatNumber(rows.length)}
            </button>
          )}
        </p>
      )}
    </>
  )
}

interface PagerProps {
  /** Position after which the next page starts. Null if this is the last page. */
  readonly next: string | null | undefined
  /** Position after which this page starts. */
  readonly after: string | undefined
}

/** Links to the next and the first page of a list. The browser's Back button leads to the previous page. */
export function Pager({ next, after }: PagerProps) {
  if (!next && !after) return null
  const open = (place: string | undefined) => setParams({ after: place }, 'push')
  return (
    <p class="table-foot">
      {after && (
        <button type="button" class="button" onClick={() => open(undefined)}>
          First page
        </button>
      )}
      {next && (
        <button type="button" class="button" onClick={() => open(next)}>
          Next page
        </button>
      )}
    </p>
  )
}

interface TablePanelProps<Row> extends Omit<PanelProps, 'children'>, Omit<TableProps<Row>, 'label' | 'total'> {
  /** Accessible name of the table. The default is the title. */
  readonly label?: string
  /** Content above and below the table. */
  readonly head?: ComponentChildren
  readonly children?: ComponentChildren
}

/** Panel that contains a table. The panel's count is the table's total number of rows. */
export function TablePanel<Row>({ description, live, tools, head, children, ...table }: TablePanelProps<Row>) {
  const { title, count } = table
  return (
    <Panel title={title} count={count} description={description} live={live} tools={tools} padded={false}>
      {head}
      <Table {...table} label={table.label ?? title} total={count} />
      {children}
    </Panel>
  )
}

interface InnerTableProps<Row> extends TableProps<Row> {
  readonly columns: readonly CompleteColumn<Row>[]
  readonly order: Order | undefined
  readonly setOrder: (order: Order | undefined) => void
  readonly body: { current: HTMLElement | null }
}

function RowTable<Row>(props: InnerTableProps<Row>) {
  const { label, rows, columns, keyOf, onOpen, opened, acts, selection, order, setOrder, body } = props
  return (
    <table class="table" aria-label={label}>
      <thead>
        <tr>
          {selection && (
            <th scope="col" class="selector">
              <input
                type="checkbox"
                aria-label="Select all rows"
                checked={rows.every((row) => selection.keys.has(keyOf(row)))}
                onChange={({ currentTarget }) =>
                  selection.onChange(new Set(currentTarget.checked ? rows.map(keyOf) : []))
                }
              />
            </th>
          )}
          {columns.map((column) => (
            <th key={column.title} scope="col" class={classOf(column)} aria-sort={sortedAs(column, order)}>
              {column.sort ? (
                <button type="button" class="sorter" onClick={() => setOrder(nextOrder(column.title, order))}>
                  {column.title}
                  <span aria-hidden="true">{order?.column === column.title ? (order.isReversed ? '↓' : '↑') : ''}</span>
                </button>
              ) : (
                column.title
              )}
            </th>
          ))}
          {acts && (
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody ref={body as { current: HTMLTableSectionElement | null }} onKeyDown={moveFocus}>
        {rows.map((row, at) => {
          const key = keyOf(row)
          return (
            <tr
              key={key}
              class={onOpen ? 'opens' : undefined}
              data-row=""
              data-opened={opened === key || undefined}
              tabIndex={onOpen ? (at === 0 ? 0 : -1) : undefined}
              onClick={onOpen && ((event) => !isControl(event.target) && !isSelecting() && onOpen(row))}
              onKeyDown={
                onOpen &&
                ((event) => {
                  if (event.key !== 'Enter' || event.target !== event.currentTarget) return
                  event.preventDefault()
                  onOpen(row)
                })
              }
            >
              {selection && (
                <td class="selector">
                  <Selector selection={selection} rowKey={key} />
                </td>
              )}
              {columns.map((column) => (
                <td key={column.title} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
              {acts && (
                <td class="end">
                  <span class="row-acts">{acts(row)}</span>
                </td>
              )}
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

function Selector({
  selection: { keys, onChange },
  rowKey,
}: {
  readonly selection: Selection
  readonly rowKey: string
}) {
  return (
    <input
      type="checkbox"
      aria-label={`Select ${rowKey}`}
      checked={keys.has(rowKey)}
      onChange={({ currentTarget }) => {
        const next = new Set(keys)
        if (currentTarget.checked) next.add(rowKey)
        else next.delete(rowKey)
        onChange(next)
      }}
    />
  )
}

function FactRows<Row>(props: InnerTableProps<Row>) {
  const { label, rows, columns, keyOf, onOpen, opened, acts, selection, body } = props
  const [first, ...rest] = columns
  return (
    <ul class="fact-rows" aria-label={label} ref={body as { current: HTMLUListElement | null }} onKeyDown={moveFocus}>
      {rows.map((row) => {
        const key = keyOf(row)
        return (
          <li key={key} data-opened={opened === key || undefined}>
            <div class="fact-head wraps">
              {selection && <Selector selection={selection} rowKey={key} />}
              {onOpen ? (
                <button type="button" class="fact-open" data-row="" onClick={() => onOpen(row)}>
                  {first!.cell(row)}
                </button>
              ) : (
                <div>{first!.cell(row)}</div>
              )}
            </div>
            <dl>
              {rest.map(({ title, cell, spare }) => {
                const fact = spare === undefined || !onOpen ? cell(row) : undefined
                if (fact === null || fact === undefined || fact === false || fact === '') return null
                return (
                  <div key={title}>
                    <dt>{title}</dt>
                    <dd>{fact}</dd>
                  </div>
                )
              })}
            </dl>
            {acts && <div class="row-acts">{acts(row)}</div>}
          </li>
        )
      })}
    </ul>
  )
}

function classOf({ align, wide, spare }: Column<never> | Column<unknown>): string | undefined {
  return [align, wide && 'wide', spare && `spare-${spare}`].filter(Boolean).join(' ') || undefined
}

function sortedAs(column: { readonly title: string; readonly sort?: unknown }, order: Order | undefined) {
  if (!column.sort) return undefined
  if (order?.column !== column.title) return 'none'
  return order.isReversed ? 'descending' : 'ascending'
}

/** Cycles through ascending order, descending order and the original order. */
function nextOrder(column: string, order: Order | undefined): Order | undefined {
  if (order?.column !== column) return { column, isReversed: false }
  return order.isReversed ? undefined : { column, isReversed: true }
}

function sortRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  order: Order | undefined,
): readonly Row[] {
  const by = columns.find(({ title }) => title === order?.column)?.sort
  if (!by) return rows
  const sign = order!.isReversed ? -1 : 1
  // Sorts unknown values last in both directions.
  return rows.toSorted((a, b) => {
    const [one, other] = [by(a) ?? undefined, by(b) ?? undefined]
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined)
    if (typeof one === 'string' && typeof other === 'string') return sign * one.localeCompare(other)
    return sign * (Number(one) - Number(other))
  })
}

function moveFocus(event: KeyboardEvent & { readonly currentTarget: HTMLElement }): void {
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-row]')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  if (at < 0) return
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key]
  const row = to === undefined ? undefined : rows[to]
  if (!row) return
  event.preventDefault()
  row.focus()
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, input, select, summary') !== null
}

/** Ignores a click that ends a text selection, so that the selection does not open the details. */
function isSelecting(): boolean {
  return getSelection()?.isCollapsed === false
}
