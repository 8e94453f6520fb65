import type { LiveView } from '../live.js'
import { type Owner, OwnerMark } from './instance-mark.js'
import { type Column, TablePanel } from './table.js'
import { None } from './time.js'

interface Holder extends Owner {
  readonly since: string | null
  readonly fence: number | string | null
}

interface HolderPanelProps<Row> {
  readonly title: string
  readonly live: LiveView<unknown>
  readonly rows: readonly Row[] | undefined
  readonly count: number | undefined
  /** Additional columns after the instance column. */
  readonly columns: readonly Column<Row>[]
}

/** Table of the holders of a name or limit, or of the calls that wait for that name or limit. */
export function HolderPanel<Row extends Holder>({ title, live, rows, count, columns }: HolderPanelProps<Row>) {
  if (!rows || rows.length === 0) return null
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
