import { useView } from '../live.js'
import { Act } from '../parts/confirm.js'
import { Empty } from '../parts/empty.js'
import { WhoIs } from '../parts/mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { None, Since } from '../parts/time.js'
import { useRoute } from '../routes.js'

export function Locks() {
  const { namespace } = useRoute().params
  const locks = useView('locks', { namespace })
  const leases = useView('leases', { namespace })
  return (
    <Page>
      <Panel title="Locks" live={locks} count={locks.data?.count} padded={false}>
        <Table
          label="Locks"
          rows={locks.data?.rows ?? []}
          total={locks.data?.count}
          keyOf={({ key, pid, granted, instance }) => `${key} ${pid} ${granted} ${instance}`}
          columns={[
            {
              title: 'Name',
              cell: ({ label, key }) => <Name text={label ?? key} />,
              sort: ({ label }) => label,
              wide: true,
            },
            {
              title: 'State',
              cell: ({ granted, mode }) => <State is={granted ? mode : 'waiting'} />,
              sort: ({ granted }) => Number(granted),
            },
            { title: 'Who', cell: (row) => <WhoIs who={row} /> },
            { title: 'For', cell: ({ since }) => <Since at={since} />, sort: ({ since }) => since, align: 'end' },
            { title: 'Fence', cell: ({ fence }) => fence ?? <None says="not known yet" />, align: 'end', spare: 2 },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 1 },
          ]}
          acts={({ key, label, granted }) =>
            granted && <Act act="release-name" params={{ key }} label="Release" of={label ?? key} />
          }
          empty={
            <Empty
              title="Nobody holds a lock, and nobody waits for one."
              code="await holdfast.locks.with('invoice:42', async ({ signal, fence }) => { … })"
            >
              Each name that is held or waited for has its row here.
            </Empty>
          }
        />
      </Panel>
      <Panel title="Leases" live={leases} count={leases.data?.count} padded={false}>
        <Table
          label="Leases"
          rows={leases.data?.rows ?? []}
          total={leases.data?.count}
          keyOf={({ key }) => key}
          columns={[
            {
              title: 'Name',
              cell: ({ label, key }) => <Name text={label ?? key} />,
              sort: ({ label }) => label,
              wide: true,
            },
            { title: 'State', cell: ({ held, wanted }) => <State is={wanted ? 'wanted' : held ? 'held' : 'free'} /> },
            { title: 'Who', cell: (row) => <WhoIs who={row} /> },
            { title: 'For', cell: ({ since }) => <Since at={since} />, sort: ({ since }) => since, align: 'end' },
            { title: 'Fence', cell: ({ fence }) => fence, align: 'end', spare: 2 },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 1 },
          ]}
          empty={
            <Empty
              title="Nobody has a lease."
              code="await using lease = await holdfast.leases.acquire('etl', { ttl: '30s' })"
            >
              A lease works through any pooler, and ends by itself when it is not renewed.
            </Empty>
          }
        />
      </Panel>
    </Page>
  )
}
