import { formatNumber } from '../format.js'
import { Heartbeats, stateText } from '../graphics/heartbeats.js'
import { useView } from '../live.js'
import { instanceColumn, namespaceColumns } from '../parts/columns.js'
import { Page } from '../parts/page.js'
import { Empty, Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { type Column, Table, TablePanel } from '../parts/table.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { Audit } from './instances/audit.js'
import { Clock, Drain, type Instance, Silence } from './instances/cells.js'
import { OneInstance } from './instances/one-instance.js'

/** Columns that the instance table and the heartbeat table share. */
const stateColumn: Column<Instance> = { title: 'State', state: stateText }
const heartbeatColumn: Column<Instance> = {
  title: 'Last heartbeat',
  cell: (row) => <Silence row={row} />,
  sort: ({ lastSeenAt }) => lastSeenAt && -Date.parse(lastSeenAt),
}
const reconnectColumn: Column<Instance> = { title: 'Reconnects', number: ({ reconnects }) => reconnects, spare: 2 }

export function Instances() {
  const { namespace, search, instance } = useParams<'instances'>()
  const instances = useView('instances', { namespace, search })
  const { rows = [], count } = instances.data ?? {}
  return (
    <Page tools={<Search subject="instances" example="worker-3" />}>
      {instance && <OneInstance key={instance} id={instance} />}
      {rows.length > 0 && (
        <Panel
          title="Heartbeats"
          live={instances}
          table={<HeartbeatTable rows={rows} />}
          description="Each mark is a heartbeat that was seen while this page was open. An instance without heartbeats for too long is declared dead, and other instances take over its work."
        >
          <Heartbeats rows={rows} />
        </Panel>
      )}
      <TablePanel
        title="Instances"
        live={instances}
        count={count}
        description={countText(instances.data)}
        rows={rows}
        keyOf={({ id }) => id}
        opened={instance}
        onOpen={({ id }) => setParams({ instance: id }, 'push')}
        columns={[
          instanceColumn(false),
          stateColumn,
          heartbeatColumn,
          { title: 'Locks', number: ({ held }) => held },
          { title: 'Leases', number: ({ leased }) => leased },
          { title: 'Waiting', number: ({ waiting }) => waiting },
          { title: 'Jobs', number: ({ jobs }) => jobs },
          reconnectColumn,
          {
            title: 'Clock',
            cell: ({ clockAheadMs }) => <Clock ahead={clockAheadMs} />,
            sort: ({ clockAheadMs }) => clockAheadMs && Math.abs(clockAheadMs),
            spare: 1,
          },
          { title: 'Uptime', since: ({ openedAt }) => openedAt },
          ...namespaceColumns(rows, 1),
        ]}
        acts={(row) => <Drain row={row} />}
        empty={
          search ? (
            <Empty title="No instance has this text in its name, ID or host name." />
          ) : (
            <Empty
              title="No instance is open."
              code="const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })"
            >
              Each process that opens Holdfast appears here.
            </Empty>
          )
        }
      />
      <Audit />
    </Page>
  )
}

function countText(fleet: ViewData<'instances'> | undefined): string | undefined {
  if (!fleet || fleet.count === 0) return undefined
  const versions = new Set(fleet.rows.filter(({ alive }) => alive).map(({ version }) => version))
  const caption = [
    `${formatNumber(fleet.count - fleet.gone)} alive`,
    fleet.draining > 0 && `including ${formatNumber(fleet.draining)} draining or drained`,
    fleet.gone > 0 && `${formatNumber(fleet.gone)} lost`,
    versions.size > 1 && `versions ${[...versions].sort().join(' and ')}`,
  ]
  return `${caption.filter(Boolean).join(', ')}.`
}

function HeartbeatTable({ rows }: { readonly rows: readonly Instance[] }) {
  return (
    <Table
      label="Heartbeats"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        instanceColumn(true),
        stateColumn,
        heartbeatColumn,
        { title: 'Heartbeat at', time: ({ lastSeenAt }) => lastSeenAt },
        { title: 'Opened', time: ({ openedAt }) => openedAt },
        reconnectColumn,
        { title: 'Connected since', time: ({ epochSince }) => epochSince },
      ]}
      empty={null}
    />
  )
}
