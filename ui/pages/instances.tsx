import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { InstanceMark } from '../parts/mark.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Since } from '../parts/time.js'

export function Instances() {
  const instances = useView('instances', {})
  return (
    <Page>
      <Panel title="Instances" live={instances} count={instances.data?.count} padded={false}>
        <Table
          label="Instances"
          rows={instances.data?.rows ?? []}
          total={instances.data?.count}
          keyOf={({ id }) => id}
          columns={[
            {
              title: 'Instance',
              cell: ({ id, host, osPid }) => <InstanceMark id={id} label={`${host}/${osPid}`} />,
              sort: ({ host, osPid }) => `${host}/${osPid}`,
              wide: true,
            },
            {
              title: 'State',
              cell: ({ alive, state }) => <State is={!alive ? 'gone' : state === 'open' ? 'alive' : state} />,
              sort: ({ alive, state }) => `${alive} ${state}`,
            },
            { title: 'Holds', cell: ({ held }) => held, sort: ({ held }) => held, align: 'end' },
            { title: 'Leases', cell: ({ leased }) => leased, sort: ({ leased }) => leased, align: 'end' },
            { title: 'Waits', cell: ({ waiting }) => waiting, sort: ({ waiting }) => waiting, align: 'end' },
            { title: 'Lives', cell: ({ lives }) => lives, sort: ({ lives }) => lives, align: 'end', spare: 2 },
            { title: 'Open for', cell: ({ openedAt }) => <Since at={openedAt} />, align: 'end' },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace}</bdi>, spare: 1 },
          ]}
          empty={
            <Empty
              title="No instance is open."
              code="const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })"
            >
              Each process that opens Holdfast has its row here.
            </Empty>
          }
        />
      </Panel>
    </Page>
  )
}
