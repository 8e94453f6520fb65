import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { WhoIs } from '../parts/mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { useRoute } from '../routes.js'

export function Deliveries() {
  const { namespace } = useRoute().params
  const deliveries = useView('deliveries', { namespace })
  return (
    <Page>
      <Panel title="Deliveries" live={deliveries} count={deliveries.data?.rows.length} padded={false}>
        <Table
          label="Deliveries"
          rows={deliveries.data?.rows ?? []}
          keyOf={({ namespace, key }) => `${namespace} ${key}`}
          columns={[
            { title: 'Key', cell: ({ key }) => <Name text={key} />, sort: ({ key }) => key, wide: true },
            { title: 'State', cell: ({ state }) => <State is={state} />, sort: ({ state }) => state },
            { title: 'Run by', cell: (row) => <WhoIs who={row} /> },
            {
              title: 'Began',
              cell: ({ startedAt }) => <Ago at={startedAt} />,
              sort: ({ startedAt }) => startedAt,
              align: 'end',
            },
            { title: 'Forgotten', cell: ({ expiresAt }) => <Ago at={expiresAt} />, align: 'end', spare: 2 },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace}</bdi>, spare: 1 },
          ]}
          empty={
            <Empty
              title="Nothing has been delivered yet."
              code="await holdfast.once.run(`stripe:${event.id}`, async ({ tx }) => { … })"
            >
              Each key has its effect once; who comes again gets the first answer.
            </Empty>
          }
        />
      </Panel>
    </Page>
  )
}
