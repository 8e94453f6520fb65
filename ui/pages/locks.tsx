import { HoldTimeline, HoldTimelineTable } from '../graphics/hold-timeline.js'
import { useView } from '../live.js'
import { Choice } from '../parts/choice.js'
import { namespaceColumns } from '../parts/columns.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { Page } from '../parts/page.js'
import { Empty, Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { Pager, TablePanel } from '../parts/table.js'
import { None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { OneName } from './locks/one-name.js'

type Names = ViewData<'names'>

/** A lock or a lease. */
interface Row extends Omit<Names['locks'][number], 'label' | 'mode' | 'waiter'> {
  readonly name: string
  readonly how: 'lock' | 'lease'
  readonly state: string
}

/** Page with the holders and waiting calls of locks, leases and elections, which share one set of names. */
export function Locks() {
  const { namespace, search, key, hours = '6', after } = useParams<'locks'>()
  const names = useView('names', { namespace, search, after: after ? Number(after) : undefined })
  const rows = names.data ? rowsOf(names.data) : []
  const at = names.at
  const timeline = useView('hold-timeline', { namespace, search, hours: Number(hours) })
  const open = (key: string) => setParams({ key }, 'push')
  return (
    <Page tools={<Search subject="names" example="invoice" />}>
      {key && <OneName key={key} nameKey={key} onClose={() => setParams({ key: undefined })} />}
      <TablePanel
        title="Names"
        live={names}
        count={countNames(names.data)}
        description={countText(names.data)}
        rows={rows}
        keyOf={keyOf}
        opened={rows.filter((row) => row.key === key).map(keyOf)[0]}
        onOpen={(row) => open(row.key)}
        columns={[
          { title: 'Name', name: ({ name }) => name, wide: true },
          { title: 'Kind', text: ({ how }) => how },
          { title: 'State', state: ({ state }) => state },
          { title: 'Holder', cell: (row) => <Holder row={row} /> },
          { title: 'Held for', age: ({ heldMs }) => heldMs, from: at },
          { title: 'Waiting', number: ({ waiters }) => waiters, cell: ({ waiters }) => waiters || <None /> },
          { title: 'Longest wait', age: ({ waitedMs }) => waitedMs, from: at, spare: 1 },
          ...namespaceColumns(rows, 2),
        ]}
        empty={
          search ? (
            <Empty title="No held or contended name contains this text.">
              A name appears here while it is held or waited for.
            </Empty>
          ) : (
            <Empty
              title="No locks or leases are held."
              code="await holdfast.locks.with('invoice:42', async ({ signal, fence }) => { … })"
            >
              A name appears here while it is held or waited for.
            </Empty>
          )
        }
      >
        <Pager next={names.data?.next} after={after} />
      </TablePanel>
      <Panel
        title="History"
        live={timeline}
        tools={
          <Choice
            label="Period"
            value={hours}
            options={[
              ['1', 'last hour'],
              ['6', 'last 6 hours'],
              ['24', 'last 24 hours'],
              ['48', 'last 48 hours'],
            ]}
            onChange={(hours) => setParams({ hours })}
          />
        }
        count={timeline.data?.names}
        table={timeline.data?.rows.length ? <HoldTimelineTable timeline={timeline.data} onOpen={open} /> : undefined}
      >
        {timeline.data &&
          (timeline.data.rows.length > 0 ? (
            <HoldTimeline timeline={timeline.data} onOpen={open} />
          ) : (
            <Empty title="No history yet.">
              Once per minute, each instance records how long names were held and waited for.
            </Empty>
          ))}
      </Panel>
    </Page>
  )
}

function Holder({ row: { holder, holders } }: { readonly row: Row }) {
  return (
    <>
      <OwnerMark owner={holder} link={false} />
      {holders > 1 && <span class="muted"> and {holders - 1} more</span>}
    </>
  )
}

const keyOf = ({ how, key }: Row) => `${how} ${key}`

/** Sorts names with waiting calls first. */
function rowsOf({ locks, leases }: Names): readonly Row[] {
  const locked = locks.map(
    ({ label, key, mode, ...lock }): Row => ({
      ...lock,
      key,
      name: label ?? `key ${key}`,
      how: 'lock',
      state: lock.holders === 0 ? 'waiting' : (mode ?? 'held'),
    }),
  )
  const leased = leases.map(
    ({ label, key, held, hasWaiters, ...lease }): Row => ({
      ...lease,
      key,
      name: label ?? `key ${key}`,
      how: 'lease',
      state: held ? 'leased' : 'min-hold',
      holder: held ? lease.holder : null,
      holders: held ? 1 : 0,
      waiters: hasWaiters ? 1 : 0,
      waitedMs: null,
    }),
  )
  return [...locked, ...leased].sort((a, b) => Number(b.waiters > 0) - Number(a.waiters > 0))
}

function countNames(names: Names | undefined): number | undefined {
  if (!names) return undefined
  const onlyWaitedFor = names.locks.filter(({ holders }) => holders === 0).length
  return names.counts.held + onlyWaitedFor + names.counts.leased
}

function countText(names: Names | undefined): string | undefined {
  if (!names) return undefined
  const { held, leased, waiters } = names.counts
  return `Locks held: ${held}. Leases held: ${leased}. Calls waiting for a lock: ${waiters}.`
}
