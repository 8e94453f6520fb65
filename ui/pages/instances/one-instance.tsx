import type { ComponentChildren } from 'preact'
import { formatDuration, visible } from '../../format.js'
import { silenceText, stateText } from '../../graphics/heartbeats.js'
import { useView } from '../../live.js'
import { Copy } from '../../parts/copy.js'
import { Empty } from '../../parts/empty.js'
import { Facts } from '../../parts/facts.js'
import { InstanceMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { Elapsed, None, When } from '../../parts/time.js'
import { hrefOf, setParams } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import { Clock, Drain, type Instance, Silence } from './cells.js'

type Work = NonNullable<ViewData<'instance'>>

/** One instance in full: how it is, what it has and waits for, and what it is at. */
export function OneInstance({ id }: { readonly id: string }) {
  const list = useView('instances', { search: id })
  const work = useView('instance', { id })
  const found = list.data?.rows.find((row) => row.id === id)
  const isNobody = list.data !== undefined && !found
  return (
    <>
      <Panel
        title="Instance"
        live={list}
        tools={
          <>
            {found && <Drain row={found} />}
            <button type="button" class="button bare" onClick={() => setParams({ instance: undefined })}>
              Close
            </button>
          </>
        }
      >
        {isNobody && (
          <Empty title={`There is no instance ${visible(id).slice(0, 80)} any more.`}>
            Whoever closes in good order leaves no row. What it did is still told by schedules, jobs and names.
          </Empty>
        )}
        {found && <About row={found} work={work.data ?? undefined} />}
      </Panel>
      {found && work.data && (
        <div class="side-by-side">
          <Panel title="Has and waits for" live={work} padded={false}>
            <Names work={work.data} />
          </Panel>
          <Panel title="Runs" live={work} padded={false}>
            <Runs work={work.data} />
          </Panel>
        </div>
      )}
    </>
  )
}

const states: Readonly<Record<string, string>> = {
  gone: 'nobody vouches for it, and it has not closed: it died, or is cut off',
  'drain-requested': 'asked to drain, and has not heard of it yet',
  draining: 'it takes no new work, and lets what runs come to its end',
  drained: 'nothing of its work is left, and it lives until its process ends',
}

function About({ row, work }: { readonly row: Instance; readonly work: Work | undefined }) {
  const state = stateText(row)
  const refused = Object.entries(row.refusedSettings)
  return (
    <div class="stack">
      {refused.length > 0 && (
        <Notice tone="warn">
          Settings of its sessions did not take effect:{' '}
          {refused.map(([name, { wanted, got }]) => `${name} is ${got ?? 'unknown'}, not ${wanted}`).join('; ')}.
        </Notice>
      )}
      <Facts
        facts={[
          ['Instance', <InstanceMark key="mark" id={row.id} label={`${row.host}/${row.osPid}`} link={false} />],
          [
            'Id',
            <span key="id" class="row">
              <code>{row.id}</code>
              <Copy text={row.id} subject="the id" />
            </span>,
          ],
          [
            'State',
            <span key="state" class="row">
              <State word={state} />
              {states[state] && <span class="muted">{states[state]}</span>}
              {work?.drainWithin != null && <span class="muted">within {formatDuration(work.drainWithin)}</span>}
            </span>,
          ],
          row.alive && ['Silent for', <Silence key="silence" row={row} />],
          ['Heard', silenceText(row)],
          [
            'Present by',
            row.isAnchored
              ? `a session of its own, server process ${row.pid}`
              : `a row, which it renews within ${formatDuration(row.expiryMs)}`,
          ],
          ['Pooler', row.pooler === 'none' ? 'none: it speaks to the server directly' : row.pooler],
          ['Clock', <Clock key="clock" ahead={row.clockAhead} />],
          ['Namespace', <Name key="namespace" text={row.namespace} maxLength={120} />],
          ['Open for', <Elapsed key="open" at={row.openedAt} />],
          [
            'Reconnects',
            row.reconnects === 0 ? (
              'none: it has never lost its presence'
            ) : (
              <span key="life">
                present since <When at={row.epochSince} />: it lost its presence{' '}
                {row.reconnects === 1 ? 'once' : `${row.reconnects} times`}
              </span>
            ),
          ],
          ['Version', `${row.version}${row.node ? `, Node.js ${row.node}` : ''}`],
          work && ['Schedules', work.schedules === 0 ? <None key="schedules" /> : `${work.schedules} in its code`],
          work &&
            work.workers.length > 0 && [
              'Workers',
              <span key="workers">
                {work.workers.map(({ number, queues, sleeping }) => (
                  <span key={number} class="row">
                    <Name text={queues.join(', ')} maxLength={60} />
                    <State word={sleeping ? 'has nothing to do' : 'works'} tone={sleeping ? 'quiet' : 'busy'} />
                  </span>
                ))}
              </span>,
            ],
        ]}
      />
    </div>
  )
}

interface Line {
  readonly id: string
  readonly what: string
  readonly tone: 'good' | 'wait' | 'busy'
  readonly name: ComponentChildren
  readonly more: ComponentChildren
  readonly since: string | null
}

function Names({ work }: { readonly work: Work }) {
  const named = ({ key, label }: { readonly key: string; readonly label: string | null }) => (
    <a href={hrefOf('locks', { key })}>
      <Name text={label ?? `key ${key}`} />
    </a>
  )
  const lines: Line[] = [
    ...work.waits.map((wait) => ({
      id: `waits ${wait.key} ${wait.kind} ${wait.mode}`,
      what: 'waits for',
      tone: 'wait' as const,
      name: wait.kind === 'permit' ? <Name text={wait.label ?? `key ${wait.key}`} /> : named(wait),
      more: wait.kind === 'lock' ? wait.mode : wait.kind,
      since: wait.since,
    })),
    ...work.leads.map(({ namespace, name, since }) => ({
      id: `leads ${namespace} ${name}`,
      what: 'leads',
      tone: 'good' as const,
      name: <Name text={name} />,
      more: 'election',
      since,
    })),
    ...work.holds.map((hold) => ({
      id: `holds ${hold.key} ${hold.mode}`,
      what: 'holds',
      tone: 'good' as const,
      name: named(hold),
      more: `${hold.mode}${hold.fence ? `, fence ${hold.fence}` : ''}`,
      since: hold.since,
    })),
    ...work.leases.map((lease) => ({
      id: `leases ${lease.key}`,
      what: 'leases',
      tone: 'good' as const,
      name: named(lease),
      more: `fence ${lease.fence}${lease.hasWaiters ? ', wanted' : ''}`,
      since: lease.since,
    })),
    ...work.permits.map(({ namespace, name, weight, granted, since }, at) => ({
      id: `permit ${namespace} ${name} ${at}`,
      what: granted ? 'has permits of' : 'waits for permits of',
      tone: granted ? ('good' as const) : ('wait' as const),
      name: (
        <a href={hrefOf('limits', { limit: name, of: namespace })}>
          <Name text={name} />
        </a>
      ),
      more: String(weight),
      since,
    })),
  ]
  return <Lines label="Has and waits for" lines={lines} empty="It holds nothing, and waits for nothing." />
}

function Runs({ work }: { readonly work: Work }) {
  const lines: Line[] = [
    ...work.jobs.map(({ id, kind, queue, progress, cancelled, since }) => ({
      id: `job ${id}`,
      what: 'job',
      tone: 'busy' as const,
      name: (
        <a href={hrefOf('jobs', { id })}>
          <Name text={kind} /> {id}
        </a>
      ),
      more: [queue, progress !== null && `${Math.round(progress * 100)} %`, cancelled !== null && 'told to stop']
        .filter(Boolean)
        .join(', '),
      since,
    })),
    ...work.runs.map(({ namespace, name, tick, extra, since }) => ({
      id: `run ${namespace} ${name} ${tick} ${extra}`,
      what: 'tick',
      tone: 'busy' as const,
      name: (
        <a href={hrefOf('schedules', { schedule: name, of: namespace })}>
          <Name text={name} />
        </a>
      ),
      more: <When at={tick} />,
      since,
    })),
    ...work.deliveries.map(({ namespace, key, since }) => ({
      id: `delivery ${namespace} ${key}`,
      what: 'delivery',
      tone: 'busy' as const,
      name: (
        <a href={hrefOf('deliveries', { of: namespace, key })}>
          <Name text={key} />
        </a>
      ),
      more: '',
      since,
    })),
  ]
  return <Lines label="Runs" lines={lines} empty="Nothing runs there now." />
}

function Lines({
  label,
  lines,
  empty,
}: {
  readonly label: string
  readonly lines: readonly Line[]
  readonly empty: string
}) {
  return (
    <Table
      label={label}
      rows={lines}
      keyOf={({ id }) => id}
      columns={[
        { title: 'What', cell: ({ what, tone }) => <State word={what} tone={tone} />, sort: ({ what }) => what },
        { title: 'Name', cell: ({ name }) => name, wide: true },
        { title: 'More', cell: ({ more }) => <span class="muted">{more}</span> },
        {
          title: 'For',
          cell: ({ since }) => <Elapsed at={since} />,
          sort: ({ since }) => since && -Date.parse(since),
          align: 'end',
        },
      ]}
      empty={<Empty title={empty} />}
    />
  )
}
