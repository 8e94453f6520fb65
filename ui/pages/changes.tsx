import { visible } from '../format.js'
import type { Mark } from '../graphics/time-chart.js'
import { useView } from '../live.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { Empty } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { TablePanel } from '../parts/table.js'
import { Ago } from '../parts/time.js'
import { hrefOf, hrefOfQueue } from '../routes.js'
import type { ViewData } from '../wire.js'

type Change = ViewData<'changes'>['rows'][number]

/** Changes in the last hour, latest first. */
export function ChangeList({ namespace }: { readonly namespace: string | undefined }) {
  const live = useView('changes', { namespace, hours: 1 })
  const rows = live.data?.rows ?? []
  return (
    <TablePanel
      title="Changes in the last hour"
      label="Changes"
      live={live}
      count={rows.length}
      rows={rows}
      keyOf={({ kind, at, subject }) => `${kind} ${at} ${subject}`}
      columns={[
        { title: 'When', cell: ({ at }) => <Ago at={at} /> },
        { title: 'Change', cell: (change) => <ChangeText change={change} />, wide: true },
        {
          title: 'Instance',
          cell: ({ instance, instanceName }) => instance && <InstanceMark id={instance} name={instanceName} short />,
          spare: 2,
        },
      ]}
      empty={<Empty title="Nothing has changed in the last hour." />}
    />
  )
}

function ChangeText({ change }: { readonly change: Change }) {
  const { text, isBad } = change
  const href = hrefOfChange(change)
  const shown = <bdi>{visible(text)}</bdi>
  return (
    <span class={isBad ? 'inline bad' : undefined}>
      {isBad && <State word="" tone="bad" />}
      {href ? <a href={href}>{shown}</a> : shown}
    </span>
  )
}

function hrefOfChange({ kind, subject, namespace, instance, job }: Change): string | undefined {
  if (job !== null) return hrefOf('jobs', { id: String(job) })
  switch (kind) {
    case 'schedule-added':
    case 'schedule-changed':
    case 'schedule-failed':
    case 'schedule-paused':
    case 'schedule-skipped':
      return hrefOf('schedules', { schedule: subject!, of: namespace ?? undefined })
    case 'queue-added':
    case 'queue-paused':
      return hrefOfQueue(subject!)
    case 'leader-changed':
      return hrefOf('locks', { search: `election/${subject}` })
    case 'act':
      return hrefOf('instances')
    default:
      return instance === null ? undefined : hrefOf('instances', { instance })
  }
}

/** Returns the mark of a change on a time axis. */
export function markOf({ at, kind, text }: Change): Mark {
  return { at, tone: kind === 'deployed' ? 'busy' : kind === 'schedule-failed' ? 'warn' : 'bad', text }
}
