import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Since } from '../parts/time.js'
import { useRoute } from '../routes.js'

export function Jobs() {
  const { namespace } = useRoute().params
  const jobs = useView('jobs', { namespace })
  return (
    <Page tools={<Search what="jobs" example="queue:mail state:failed" />}>
      <Panel title="Jobs" live={jobs} count={jobs.data?.rows.length} padded={false}>
        <Table
          label="Jobs"
          rows={jobs.data?.rows ?? []}
          keyOf={({ id }) => String(id)}
          columns={[
            { title: 'Job', cell: ({ id }) => id, sort: ({ id }) => id },
            { title: 'Kind', cell: ({ kind }) => <Name text={kind} />, sort: ({ kind }) => kind, wide: true },
            { title: 'Queue', cell: ({ queue, queueKey }) => <Name text={queue ?? queueKey} />, spare: 2 },
            { title: 'State', cell: ({ state }) => <State is={state} />, sort: ({ state }) => state },
            { title: 'Enqueued', cell: ({ enqueuedAt }) => <Since at={enqueuedAt} />, align: 'end' },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace}</bdi>, spare: 1 },
          ]}
          empty={
            <Empty title="There is no job." code="await holdfast.jobs.enqueue(sendEmail, { to: 'ada@example.com' })">
              What is enqueued stands here, also for a while after it has ended.
            </Empty>
          }
        />
      </Panel>
    </Page>
  )
}
