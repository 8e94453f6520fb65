import { visible } from '../../format.js'
import { useView } from '../../live.js'
import { Empty } from '../../parts/empty.js'
import { Name } from '../../parts/name.js'
import { Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { None, When } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

type Entry = ViewData<'audit'>['rows'][number]

/** What visitors of the dashboard did, the latest first. */
export function Audit() {
  const audit = useView('audit', {})
  return (
    <Panel
      title="What visitors did"
      live={audit}
      description="Each act, written down before it was done, and again when it had been. The latest two hundred. Each act also forgets up to a thousand that are older than 90 days."
      padded={false}
    >
      <Table
        label="What visitors did"
        rows={audit.data?.rows ?? []}
        keyOf={({ id }) => id}
        columns={[
          { title: 'When', cell: ({ at }) => <When at={at} />, sort: ({ at }) => Date.parse(at) },
          {
            title: 'Visitor',
            cell: ({ visitor }) => <Name text={visitor} maxLength={24} />,
            sort: ({ visitor }) => visitor,
          },
          { title: 'Act', cell: ({ act }) => act, sort: ({ act }) => act },
          { title: 'To what', cell: ({ subject }) => <Name text={subject} />, sort: ({ subject }) => subject },
          { title: 'What became of it', cell: (entry) => <OutcomeCell entry={entry} />, wide: true },
          {
            title: 'Why',
            cell: ({ reason }) => (reason ? <bdi>{visible(reason)}</bdi> : <None text="not said" />),
            spare: 1,
          },
        ]}
        empty={
          <Empty title="Nobody has done anything here yet.">
            Each act of the dashboard has its row here, with who did it.
          </Empty>
        }
      />
    </Panel>
  )
}

function OutcomeCell({ entry: { outcome, error, endedAt, consequence } }: { readonly entry: Entry }) {
  if (outcome) return <bdi title={visible(consequence)}>{visible(outcome)}</bdi>
  if (error) {
    return (
      <span class="row">
        <State word="failed" />
        <bdi>{visible(error)}</bdi>
      </span>
    )
  }
  return <State word={endedAt ? 'done' : 'not known'} tone={endedAt ? 'good' : 'warn'} />
}
