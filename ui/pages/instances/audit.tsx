import { visible } from '../../format.js'
import { useView } from '../../live.js'
import { Empty } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { TablePanel } from '../../parts/table.js'
import { None } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

type Entry = ViewData<'audit'>['rows'][number]

/** Audit log of visitors' actions, latest first. */
export function Audit() {
  const audit = useView('audit', {})
  return (
    <TablePanel
      title="Audit log"
      live={audit}
      description="The latest 200 actions. Each action is recorded before and after it runs. Records are kept for at least 90 days."
      rows={audit.data?.rows ?? []}
      keyOf={({ id }) => id}
      columns={[
        { title: 'Time', time: ({ at }) => at },
        { title: 'Visitor', name: ({ visitor }) => visitor, maxLength: 24 },
        { title: 'Action', text: ({ act }) => act },
        { title: 'Subject', name: ({ subject }) => subject },
        { title: 'Outcome', cell: (entry) => <OutcomeCell entry={entry} />, wide: true },
        { title: 'Reason', cell: ({ reason }) => (reason ? <bdi>{visible(reason)}</bdi> : <None />), spare: 1 },
      ]}
      empty={<Empty title="No actions yet.">Each action in the dashboard appears here with its visitor.</Empty>}
    />
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
  return <State word={endedAt ? 'done' : 'unknown'} tone={endedAt ? 'good' : 'warn'} />
}
