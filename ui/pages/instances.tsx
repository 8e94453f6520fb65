import { formatNumber } from '../format.js'
import { Heartbeats, stateText } from '../graphics/heartbeats.js'
import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State } from '../parts/state.js'
import { type Column, Table } from '../parts/table.js'
import { Elapsed, When } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { Audit } from './instances/audit.js'
import { Clock, Drain, type Instance, Silence } from './instances/cells.js'
import { OneInstance } from './instances/one-instance.js'

const inNamespace: Column<Instance> = {
  title: 'Namespace',
  cell: ({ namespace }) => <Name text={namespace} maxLength={20} />,
  sort: ({ namespace }) => namespace,
  spare: 1,
}

/** Who takes part, how they are, and what visitors did. */
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
          description="A stroke for each time the server was seen to hear of an instance, while this page looked. Who is silent for too long is given up, and others take over what it had."
        >
          <Heartbeats rows={rows} />
        </Panel>
      )}
      <Panel title="Instances" live={instances} count={count} description={countText(instances.data)} padded={false}>
        <Table
          label="Instances"
          rows={rows}
          total={count}
          keyOf={({ id }) => id}
          opened={instance}
          onOpen={({ id }) => setParams({ instance: id }, 'push')}
          columns={[
            {
              title: 'Instance',
              // The row itself is what is pressed.
              cell: ({ id, host, osPid }) => <InstanceMark id={id} label={`${host}/${osPid}`} link={false} />,
              sort: ({ host, osPid }) => `${host}/${osPid}`,
              wide: true,
            },
            { title: 'State', cell: (row) => <State word={stateText(row)} />, sort: stateText },
            {
              title: 'Silent for',
              cell: (row) => <Silence row={row} />,
              sort: ({ lastSeenAt }) => lastSeenAt && -Date.parse(lastSeenAt),
            },
            { title: 'Holds', cell: ({ held }) => held, sort: ({ held }) => held, align: 'end' },
            { title: 'Leases', cell: ({ leased }) => leased, sort: ({ leased }) => leased, align: 'end' },
            { title: 'Waits', cell: ({ waiting }) => waiting, sort: ({ waiting }) => waiting, align: 'end' },
            { title: 'Jobs', cell: ({ jobs }) => jobs, sort: ({ jobs }) => jobs, align: 'end' },
            {
              title: 'Reconnects',
              cell: ({ reconnects }) => reconnects,
              sort: ({ reconnects }) => reconnects,
              align: 'end',
              spare: 2,
            },
            {
              title: 'Clock',
              cell: ({ clockAhead }) => <Clock ahead={clockAhead} />,
              sort: ({ clockAhead }) => clockAhead && Math.abs(clockAhead),
              spare: 1,
            },
            { title: 'Anchor', cell: (row) => anchorOf(row), sort: anchorOf, spare: 1 },
            {
              title: 'Open for',
              cell: ({ openedAt }) => <Elapsed at={openedAt} />,
              sort: ({ openedAt }) => -Date.parse(openedAt),
              align: 'end',
            },
            ...(new Set(rows.map((row) => row.namespace)).size > 1 ? [inNamespace] : []),
          ]}
          acts={(row) => <Drain row={row} />}
          empty={
            search ? (
              <Empty title="No instance has this in its id or its machine." />
            ) : (
              <Empty
                title="No instance is open."
                code="const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })"
              >
                Each process that opens Holdfast has its row here.
              </Empty>
            )
          }
        />
      </Panel>
      <Audit />
    </Page>
  )
}

function countText(fleet: ViewData<'instances'> | undefined): string | undefined {
  if (!fleet || fleet.count === 0) return undefined
  const versions = new Set(fleet.rows.filter(({ alive }) => alive).map(({ version }) => version))
  const caption = [
    `${formatNumber(fleet.count - fleet.gone)} alive`,
    fleet.draining > 0 && `${formatNumber(fleet.draining)} of them drain or are drained`,
    fleet.gone > 0 && `${formatNumber(fleet.gone)} gone`,
    versions.size > 1 && `versions ${[...versions].sort().join(' and ')} take part`,
  ]
  return `${caption.filter(Boolean).join(', ')}.`
}

/** By what it is present, and what stands between it and the server. */
function anchorOf({ isAnchored, pooler }: Instance): string {
  if (!isAnchored) return 'row'
  return pooler === 'none' ? 'session' : `session, ${pooler}`
}

function HeartbeatTable({ rows }: { readonly rows: readonly Instance[] }) {
  return (
    <Table
      label="Heartbeats"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Instance',
          cell: ({ id, host, osPid }) => <InstanceMark id={id} label={`${host}/${osPid}`} />,
          sort: ({ host, osPid }) => `${host}/${osPid}`,
          wide: true,
        },
        { title: 'State', cell: (row) => <State word={stateText(row)} />, sort: stateText },
        {
          title: 'Last heard',
          cell: ({ lastSeenAt }) => <When at={lastSeenAt} />,
          sort: ({ lastSeenAt }) => lastSeenAt && Date.parse(lastSeenAt),
        },
        { title: 'Silent for', cell: (row) => <Silence row={row} /> },
        {
          title: 'Opened',
          cell: ({ openedAt }) => <When at={openedAt} />,
          sort: ({ openedAt }) => Date.parse(openedAt),
        },
        {
          title: 'Reconnects',
          cell: ({ reconnects }) => reconnects,
          sort: ({ reconnects }) => reconnects,
          align: 'end',
        },
        {
          title: 'Since',
          cell: ({ epochSince }) => <When at={epochSince} />,
          sort: ({ epochSince }) => Date.parse(epochSince),
        },
      ]}
      empty={null}
    />
  )
}
