import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Facts } from '../../parts/facts.js'
import { WhoIs } from '../../parts/mark.js'
import { Name } from '../../parts/name.js'
import { Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { None, Since } from '../../parts/time.js'
import { setParams } from '../../routes.js'
import type { Says } from '../../wire.js'

type Told = Says<'name'>

/** All about one name: who has it, who waits, what can be done, and its past. */
export function OneName({ nameKey }: { readonly nameKey: string }) {
  const live = useView('name', { key: nameKey })
  const { data } = live
  const name = data?.label ?? `key ${nameKey}`
  return (
    <Panel
      title={name.length > 60 ? `${name.slice(0, 60)}…` : name}
      live={live}
      tools={
        <button type="button" class="button bare" onClick={() => setParams({ key: undefined })}>
          Close
        </button>
      }
    >
      {data && (
        <div class="stack">
          <Facts
            facts={[
              ['Name', <Name key="name" text={name} most={200} copy />],
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
            {(data.holding > 0 || data.lease?.held) && (
              <Act act="release-name" params={{ key: nameKey }} label="Ask to release" of={name} />
            )}
            {data.lease && <Act act="expire-lease" params={{ key: nameKey }} label="Expire" of={name} />}
            {data.holding > 0 && <Act act="break-lock" params={{ key: nameKey }} label="Break" of={name} />}
          </div>
          {data.holders.length > 0 && <People label="Holders" rows={data.holders} total={data.holding} />}
          {data.waiters.length > 0 && <People label="Who waits" rows={data.waiters} total={data.waiters.length} />}
        </div>
      )}
    </Panel>
  )
}

function stateOf({ holders, lease, waiters }: Told): string {
  if (holders.length > 0) return holders[0]!.mode
  if (lease) return lease.held ? 'leased' : 'kept'
  return waiters.length > 0 ? 'waiting' : 'free'
}

function leaseFacts(lease: NonNullable<Told['lease']>) {
  const { held, fence, ttlMs } = lease
  return [
    ['Leased by', held ? <WhoIs key="who" who={lease} /> : <None key="who" says="nobody: kept by its hold" />],
    ['Since', <Since key="since" at={lease.since} />],
    ['Fence', fence],
    ['Time to live', `${ttlMs / 1_000} s`],
  ] as const
}

function People({ label, rows, total }: { label: string; rows: Told['holders']; total: number }) {
  return (
    <Table
      label={label}
      rows={rows}
      total={total}
      keyOf={({ pid, instance, mode }) => `${pid} ${instance} ${mode}`}
      columns={[
        { title: label, cell: (row) => <WhoIs who={row} />, wide: true },
        { title: 'Mode', cell: ({ mode }) => mode },
        { title: 'For', cell: ({ since }) => <Since at={since} />, align: 'end' },
        { title: 'Session', cell: ({ pid }) => pid ?? <None says="inside its process" />, align: 'end', spare: 2 },
        { title: 'Fence', cell: ({ fence }) => fence ?? <None />, align: 'end', spare: 2 },
        { title: 'Calls', cell: ({ requests }) => requests, align: 'end', spare: 1 },
      ]}
      empty={null}
    />
  )
}
