import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { Meter } from '../parts/meter.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { None, Since } from '../parts/time.js'
import { useRoute } from '../routes.js'

export function Limits() {
  const { namespace } = useRoute().params
  const limits = useView('limits', { namespace })
  return (
    <Page>
      <Panel title="Limits" live={limits} count={limits.data?.rows.length} padded={false}>
        <Table
          label="Limits"
          rows={limits.data?.rows ?? []}
          keyOf={({ key }) => key}
          columns={[
            { title: 'Name', cell: ({ name }) => <Name text={name} />, sort: ({ name }) => name, wide: true },
            { title: 'State', cell: ({ state }) => <State is={state} />, sort: ({ state }) => state },
            {
              title: 'In use',
              cell: ({ name, inUse, max }) =>
                inUse === null || max === null ? <None /> : <Meter label={name} value={inUse} max={max} />,
              sort: ({ inUse }) => inUse,
            },
            {
              title: 'Waiting',
              cell: ({ waiting }) => waiting ?? <None />,
              sort: ({ waiting }) => waiting,
              align: 'end',
            },
            { title: 'For', cell: ({ since }) => <Since at={since} />, align: 'end', spare: 2 },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace}</bdi>, spare: 1 },
          ]}
          empty={
            <Empty
              title="No limit is in use."
              code="await holdfast.limits.with(`export:${userId}`, { max: 1 }, async () => { … })"
            >
              A limit of which all permits are free needs no row.
            </Empty>
          }
        />
      </Panel>
    </Page>
  )
}
