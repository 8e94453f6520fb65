import type { ComponentChildren } from 'preact'
import { shorten } from '../format.js'
import type { LiveView } from '../live.js'
import { Dialog } from './dialog.js'
import { type Fact, Facts } from './facts.js'
import { type Owner, OwnerMark } from './instance-mark.js'
import { Name } from './name.js'
import { Panel } from './panel.js'
import { type Column, TablePanel } from './table.js'
import { None } from './time.js'

interface Holder extends Owner {
  readonly since: string | null
  readonly fence: number | string | null
}

interface HeldData<Row> {
  readonly holders: readonly Row[]
  readonly holding: number
  readonly waiters: readonly Row[]
  readonly waiting: number
}

interface HolderDialogProps<Row> {
  readonly name: string
  readonly live: LiveView<HeldData<Row>>
  readonly facts: readonly (Fact | false)[]
  readonly acts: ComponentChildren
  readonly waitersTitle: string
  /** Additional columns after the instance column. */
  readonly columns: readonly Column<Row>[]
  readonly onClose: () => void
  /** Content below the tables. */
  readonly children?: ComponentChildren
}

/** Details of a name or a limit, with its holders, its waiting calls, and the actions on it. */
export function HolderDialog<Row extends Holder>(props: HolderDialogProps<Row>) {
  const { name, live, facts, acts, waitersTitle, columns, onClose, children } = props
  const { data } = live
  return (
    <Dialog kind="side" title={shorten(name, 60)} onClose={onClose}>
      <Panel title="Now" live={live}>
        {data && (
          <div class="stack">
            <Facts facts={[['Name', <Name key="name" text={name} maxLength={300} copy />], ...facts]} />
            <div class="row-acts">{acts}</div>
          </div>
        )}
      </Panel>
      {data && <HolderPanel title="Holders" live={live} rows={data.holders} count={data.holding} columns={columns} />}
      {data && (
        <HolderPanel title={waitersTitle} live={live} rows={data.waiters} count={data.waiting} columns={columns} />
      )}
      {children}
    </Dialog>
  )
}

interface HolderPanelProps<Row> extends Pick<HolderDialogProps<Row>, 'live' | 'columns'> {
  readonly title: string
  readonly rows: readonly Row[]
  readonly count: number
}

function HolderPanel<Row extends Holder>({ title, live, rows, count, columns }: HolderPanelProps<Row>) {
  if (rows.length === 0) return null
  return (
    <TablePanel
      title={title}
      live={live}
      count={count}
      rows={rows}
      keyOf={(row) => `${row.pid} ${row.instance} ${row.since} ${row.fence} ${rows.indexOf(row)}`}
      columns={[
        { title: 'Instance', cell: (row) => <OwnerMark owner={row} />, wide: true },
        ...columns,
        { title: 'For', since: ({ since }) => since },
        { title: 'Fence', cell: ({ fence }) => fence ?? <None text="waiting" />, align: 'end', spare: 2 },
      ]}
      empty={null}
    />
  )
}
