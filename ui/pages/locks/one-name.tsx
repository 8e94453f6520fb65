import { shorten } from '../../format.js'
import { Ruler, RulerTable } from '../../graphics/ruler.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Empty } from '../../parts/empty.js'
import { Facts } from '../../parts/facts.js'
import { WhoIs } from '../../parts/mark.js'
import { Name } from '../../parts/name.js'
import { Panel, type PanelProps } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { None, Since } from '../../parts/time.js'
import type { Says } from '../../wire.js'

type Told = Says<'name'>

/** All about one name: who has it, who waits, what can be done, and its past. */
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
                ['Name', <Name key="name" text={name} most={300} copy />],
                data.namespace !== null && ['Namespace', <bdi key="namespace">{data.namespace}</bdi>],
                [
                  'Key',
                  <span key="key" class="mono">
                    {data.key}
                  </span>,
                ],
                ['State', <State key="state" is={stateOf(data)} />],
                ...(data.lease ? leaseFacts(data.lease) : []),
              ]}
            />
            <div class="row-acts">
              {data.holders.some(({ instance }) => instance !== null) && (
                <Act act="release-name" params={{ key: nameKey }} label="Ask to release" of={name} />
              )}
              {data.lease && <Act act="expire-lease" params={{ key: nameKey }} label="Expire" of={name} />}
              {data.holding > 0 && <Act act="break-lock" params={{ key: nameKey }} label="Break" of={name} />}
            </div>
          </div>
        )}
      </Panel>
      {data && data.holders.length > 0 && (
        <People title="Holders" live={live} rows={data.holders} count={data.holding} />
      )}
      {data && data.waiters.length > 0 && (
        <People title="Who waits" live={live} rows={data.waiters} count={data.waiting} />
      )}
      <Panel
        title="Terms"
        live={terms}
        says="Who had it before, with the fence of each, and why each ended."
        twin={terms.data?.length ? <RulerTable terms={terms.data} /> : undefined}
      >
        {terms.data &&
          (terms.data.length > 0 ? (
            <Ruler terms={terms.data} />
          ) : (
            <Empty title="Nothing has been written down yet.">
              Instances write down once a minute who led, and what was held for a second or more.
            </Empty>
          ))}
      </Panel>
    </Dialog>
  )
}

function stateOf({ holders, lease, waiters }: Told): string {
  if (holders.length > 0) return holders[0]!.mode
  if (lease) return lease.held ? 'leased' : 'kept'
  return waiters.length > 0 ? 'waiting' : 'free'
}

function leaseFacts(lease: NonNullable<Told['lease']>) {
  return [
    ['Leased by', lease.held ? <WhoIs key="who" who={lease} /> : <None key="who" says="nobody: kept by its hold" />],
    ['Since', <Since key="since" at={lease.since} />],
    ['Fence', lease.fence],
    ['Lasts without a renewal', `${lease.ttlMs / 1_000} s`],
  ] as const
}

interface PeopleProps extends Pick<PanelProps, 'title' | 'live'> {
  readonly rows: Told['holders']
  readonly count: number
}

function People({ title, live, rows, count }: PeopleProps) {
  return (
    <Panel title={title} live={live} count={count} padded={false}>
      <Table
        label={title}
        rows={rows}
        keyOf={({ pid, instance, mode }) => `${pid} ${instance} ${mode}`}
        columns={[
          { title: 'Who', cell: (row) => <WhoIs who={row} />, wide: true },
          { title: 'Mode', cell: ({ mode }) => mode },
          { title: 'For', cell: ({ since }) => <Since at={since} />, align: 'end' },
          { title: 'Session', cell: ({ pid }) => pid ?? <None says="inside its process" />, align: 'end', spare: 2 },
          { title: 'Fence', cell: ({ fence }) => fence ?? <None />, align: 'end', spare: 2 },
          { title: 'Calls', cell: ({ requests }) => requests, align: 'end', spare: 1 },
        ]}
        empty={null}
      />
    </Panel>
  )
}
