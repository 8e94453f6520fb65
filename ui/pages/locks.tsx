import { HoldTimeline, HoldTimelineTable } from '../graphics/hold-timeline.js'
import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Age, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { OneName } from './locks/one-name.js'

type Names = ViewData<'names'>

/** A name, however it is held. */
interface Row {
  readonly key: string
  readonly name: string
  readonly namespace: string | null
  readonly how: 'lock' | 'lease'
  readonly state: string
  readonly holder: Names['locks'][number]['holder']
  readonly holders: number
  readonly heldMs: number | null
  readonly fence: number | null
  readonly waiters: number
  readonly waitedMs: number | null
  readonly expiresInMs: number | null
}

/** Who has which name, and who waits for it: locks, leases and elections, which share their names. */
export function Locks() {
  const { namespace, search, key, hours = '48' } = useParams<'locks'>()
  const names = useView('names', { namespace, search })
  const rows = names.data ? rowsOf(names.data) : []
  const at = names.at
  const timeline = useView('hold-timeline', { namespace, search, hours: Number(hours) })
  const open = (key: string) => setParams({ key }, 'push')
  return (
    <Page tools={<Search subject="names" example="invoice" />}>
      {key && <OneName key={key} nameKey={key} onClose={() => setParams({ key: undefined })} />}
      <Panel
        title="Names"
        live={names}
        count={countNames(names.data)}
        description={countText(names.data)}
        padded={false}
      >
        <Table
          label="Names"
          rows={rows}
          total={countNames(names.data)}
          keyOf={keyOf}
          opened={rows.filter((row) => row.key === key).map(keyOf)[0]}
          onOpen={(row) => open(row.key)}
          columns={[
            { title: 'Name', cell: ({ name }) => <Name text={name} />, sort: ({ name }) => name, wide: true },
            { title: 'By', cell: ({ how }) => how, sort: ({ how }) => how },
            { title: 'State', cell: ({ state }) => <State word={state} />, sort: ({ state }) => state },
            { title: 'Holder', cell: (row) => <Holder row={row} /> },
            { title: 'For', cell: ({ heldMs }) => <Age ms={heldMs} from={at} />, sort: byHoldTime, align: 'end' },
            {
              title: 'Waiting',
              cell: ({ waiters }) => waiters || <None />,
              sort: ({ waiters }) => waiters,
              align: 'end',
            },
            {
              title: 'Longest wait',
              cell: ({ waitedMs }) => <Age ms={waitedMs} from={at} />,
              sort: ({ waitedMs }) => waitedMs,
              align: 'end',
              spare: 1,
            },
            { title: 'Fence', cell: ({ fence }) => fence ?? <None text="not known yet" />, align: 'end', spare: 1 },
            { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 2 },
          ]}
          empty={
            search ? (
              <Empty title="No name that is held, leased or waited for has this in it.">
                A name is here as long as somebody has it or waits for it.
              </Empty>
            ) : (
              <Empty
                title="Nobody holds a lock or a lease, and nobody waits for one."
                code="await holdfast.locks.with('invoice:42', async ({ signal, fence }) => { … })"
              >
                Each name that is held or waited for has its row here.
              </Empty>
            )
          }
        />
      </Panel>
      <Panel
        title="How it was"
        live={timeline}
        tools={
          <select
            class="field"
            aria-label="How far back"
            value={hours}
            onChange={({ currentTarget }) => setParams({ hours: currentTarget.value })}
          >
            {[1, 6, 24, 48].map((hours) => (
              <option key={hours} value={hours}>
                {hours === 1 ? 'the last hour' : `the last ${hours} hours`}
              </option>
            ))}
          </select>
        }
        count={timeline.data?.names}
        table={timeline.data?.rows.length ? <HoldTimelineTable timeline={timeline.data} onOpen={open} /> : undefined}
      >
        {timeline.data &&
          (timeline.data.rows.length > 0 ? (
            <HoldTimeline timeline={timeline.data} onOpen={open} />
          ) : (
            <Empty title="Nothing has been written down yet.">
              Once a minute each instance writes down how long names were held and waited for.
            </Empty>
          ))}
      </Panel>
    </Page>
  )
}

function Holder({ row: { holder, holders } }: { readonly row: Row }) {
  return (
    <>
      <OwnerMark owner={holder} />
      {holders > 1 && <span class="muted"> and {holders - 1} more</span>}
    </>
  )
}

const keyOf = ({ how, key }: Row) => `${how} ${key}`
const byHoldTime = ({ heldMs }: Row) => heldMs

/** Those that somebody waits for come first. */
function rowsOf({ locks, leases }: Names): readonly Row[] {
  const locked = locks.map(
    ({ label, key, mode, ...lock }): Row => ({
      ...lock,
      key,
      name: label ?? `key ${key}`,
      how: 'lock',
      state: lock.holders === 0 ? 'waiting' : (mode ?? 'held'),
      expiresInMs: null,
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
  const { held, leased, waitedFor, waiters } = names.counts
  const waits = waiters === 0 ? 'nobody waits for a lock' : `${waiters} wait for ${waitedFor} of the locks`
  return `${held} held as locks, ${leased} by lease; ${waits}.`
}
