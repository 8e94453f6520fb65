import { TermTimeline, TermTimelineTable } from '../../graphics/term-timeline.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import type { Fact } from '../../parts/facts.js'
import { HolderDialog } from '../../parts/holders.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Empty, Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import type { Column } from '../../parts/table.js'
import { Elapsed, None } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

type NameData = ViewData<'name'>

const columns: Column<NameData['holders'][number]>[] = [
  { title: 'Mode', cell: ({ mode }) => mode },
  { title: 'Backend PID', cell: ({ pid }) => pid ?? <None text="wait inside the process" />, align: 'end', spare: 2 },
  { title: 'Calls', number: ({ requests }) => requests, spare: 1 },
]

export function OneName({ nameKey, onClose }: { readonly nameKey: string; readonly onClose: () => void }) {
  const live = useView('name', { key: nameKey })
  const terms = useView('terms', { key: nameKey })
  const { data } = live
  const name = data?.label ?? `key ${nameKey}`
  return (
    <HolderDialog
      name={name}
      live={live}
      facts={data ? factsOf(data) : []}
      acts={
        <>
          {data?.holders.some(({ instance }) => instance !== null) && (
            <Act act="release-name" params={{ key: nameKey }} label="Ask to release" subject={name} />
          )}
          {data?.lease && <Act act="expire-lease" params={{ key: nameKey }} label="Expire" subject={name} />}
          {data && data.holding > 0 && <Act act="break-lock" params={{ key: nameKey }} label="Break" subject={name} />}
        </>
      }
      waitersTitle="Waiting"
      columns={columns}
      onClose={onClose}
    >
      <Panel
        title="Previous holders"
        live={terms}
        description="Each holder with its fencing token, and the reason why its term ended."
        table={terms.data?.length ? <TermTimelineTable terms={terms.data} /> : undefined}
      >
        {terms.data &&
          (terms.data.length > 0 ? (
            <TermTimeline terms={terms.data} />
          ) : (
            <Empty title="No previous holders yet.">
              Once per minute, each instance records its terms as a leader, and names that it held for 1 s or longer.
            </Empty>
          ))}
      </Panel>
    </HolderDialog>
  )
}

function stateOf({ holders, lease, waiters }: Pick<NameData, 'holders' | 'lease' | 'waiters'>): string {
  if (holders.length > 0) return holders[0]!.mode
  if (lease) return lease.held ? 'leased' : 'min-hold'
  return waiters.length > 0 ? 'waiting' : 'free'
}

function factsOf({ namespace, key, lease, ...data }: NameData): (Fact | false)[] {
  const none = <None key="holder" text="minimum hold time" />
  return [
    namespace !== null && ['Namespace', <bdi key="namespace">{namespace}</bdi>],
    ['Key', <code key="key">{key}</code>],
    ['State', <State key="state" word={stateOf({ ...data, lease })} />],
    lease !== null && ['Leased by', lease.held ? <OwnerMark key="holder" owner={lease} /> : none],
    lease !== null && ['Since', <Elapsed key="since" at={lease.since} />],
    lease !== null && ['Fence', lease.fence],
    lease !== null && ['Expires without renewal after', `${lease.ttlMs / 1_000} s`],
  ]
}
