import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Ago, None } from '../parts/time.js'
import { useRoute } from '../routes.js'

export function Schedules() {
  const { namespace } = useRoute().params
  const overview = useView('overview', { namespace })
  return (
    <Page>
      <Panel title="Schedules" live={overview} count={overview.data?.counts.schedules} padded={false}>
        <Table
          label="Schedules"
          rows={overview.data?.schedules ?? []}
          total={overview.data?.counts.schedules}
          keyOf={({ key }) => key}
          columns={[
            { title: 'Name', cell: ({ name }) => <Name text={name} />, sort: ({ name }) => name, wide: true },
            {
              title: 'State',
              cell: ({ paused, running }) => <State is={paused ? 'paused' : running > 0 ? 'running' : 'open'} />,
            },
            {
              title: 'Next tick',
              cell: ({ nextAt }) => <Ago at={nextAt} />,
              sort: ({ nextAt }) => nextAt,
              align: 'end',
            },
            {
              title: 'Last run',
              cell: ({ last }) => (last ? <State is={last.state} /> : <None />),
              sort: ({ last }) => last?.state,
            },
            {
              title: 'Members',
              cell: ({ members }) => members,
              sort: ({ members }) => members,
              align: 'end',
              spare: 2,
            },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace}</bdi>, spare: 1 },
          ]}
          empty={
            <Empty
              title="There is no schedule."
              code="holdfast.schedules.add('hourly-report', { cron: '0 * * * *' }, async (run) => { … })"
            >
              Each instance adds the same schedules; each tick runs on one of them.
            </Empty>
          }
        />
      </Panel>
    </Page>
  )
}
