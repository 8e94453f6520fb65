import { shorten } from '../../format.js'
import { TermTimeline, TermTimelineTable } from '../../graphics/term-timeline.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { HolderPanel } from '../../parts/holders.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
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

/** Details of a name, with its holders, waiting calls, actions, and previous holders. */
export function OneName({ nameKey, onClose }: { readonly nameKey: string; readonly onClose: () => void }) {
  const live = useView('name', { key: nameKey })
  const terms = useView('terms', { key: nameKey })
  const { data } = live
  const name = data?.label ?? `key ${nameKey}`
  return (
    <Dialog kind="side" title={shorten(name, 60)} onClose={onClose}>
      <Panel title="Now" live={live}>
        {data && (
          <div class="stack">
            <Facts
              facts={[
                ['Name', <Name key="name" text={name} maxLength={300} copy />],
                data.namespace !== null && ['Namespace', <bdi key="namespace">{data.namespace}</bdi>],
                [
                  'Key',
                  <span key="key" class="mono">
                    {data.key}
                  </span>,
                ],
                ['State', <State key="state" word={stateOf(data)} />],
                ...(data.lease ? leaseFacts(data.lease) : []),
              ]}
            />
            <div class="row-acts">
              {data.holders.some(({ instance }) => instance !== null) && (
                <Act act="release-name" params={{ key: nameKey }} label="Ask to release" subject={name} />
              )}
              {data.lease && <Act act="expire-lease" params={{ key: nameKey }} label="Expire" subject={name} />}
              {data.holding > 0 && <Act act="break-lock" params={{ key: nameKey }} label="Break" subject={name} />}
            </div>
          </div>
        )}
      </Panel>
      <HolderPanel title="Holders" live={live} rows={data?.holders} count={data?.holding} columns={columns} />
      <HolderPanel title="Waiting" live={live} rows={data?.waiters} count={data?.waiting} columns={columns} />
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
    </Dialog>
  )
}

function stateOf({ holders, lease, waiters }: NameData): string {
  if (holders.length > 0) return holders[0]!.mode
  if (lease) return lease.held ? 'leased' : 'min-hold'
  return waiters.length > 0 ? 'waiting' : 'free'
}

function leaseFacts(lease: NonNullable<NameData['lease']>) {
  return [
    [
      'Leased by',
      lease.held ? <OwnerMark key="holder" owner={lease} /> : <None key="holder" text="minimum hold time" />,
    ],
    ['Since', <Elapsed key="since" at={lease.since} />],
    ['Fence', lease.fence],
    ['Expires without renewal after', `${lease.ttlMs / 1_000} s`],
  ] as const
}
