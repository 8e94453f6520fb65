import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { InstanceMark } from '../parts/mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { useRoute } from '../routes.js'

export function Now() {
  const { namespace } = useRoute().params
  const overview = useView('overview', { namespace })
  return (
    <Page>
      <Panel title="Trouble of the last hour" live={overview} count={overview.data?.trouble.length} padded={false}>
        <Table
          label="Trouble"
          rows={overview.data?.trouble ?? []}
          keyOf={({ kind, at, subject, job }) => `${kind} ${at} ${subject} ${job}`}
          columns={[
            { title: 'What', cell: ({ kind }) => <State is={kind} tone="bad" />, sort: ({ kind }) => kind },
            { title: 'Of', cell: ({ subject }) => <Name text={subject} />, sort: ({ subject }) => subject },
            { title: 'Why', cell: ({ detail }) => <bdi>{detail}</bdi>, wide: true },
            {
              title: 'Instance',
              cell: ({ instance }) => instance && <InstanceMark id={instance} label={instance} />,
              spare: 1,
            },
            { title: 'When', cell: ({ at }) => <Ago at={at} />, sort: ({ at }) => at, align: 'end' },
          ]}
          empty={<Empty title="Nothing went wrong in the last hour." />}
        />
      </Panel>
    </Page>
  )
}
