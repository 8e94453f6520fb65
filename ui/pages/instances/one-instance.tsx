import type { ComponentChildren } from 'preact'
import { formatDuration, visible } from '../../format.js'
import { silenceText, stateText } from '../../graphics/heartbeats.js'
import { useView } from '../../live.js'
import { Copy } from '../../parts/copy.js'
import { CloseButton } from '../../parts/details.js'
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

/** Details of an instance: its state, the names that it holds and waits for, and its work. */
export function OneInstance({ id }: { readonly id: string }) {
  const list = useView('instances', { search: id })
  const work = useView('instance', { id })
  const found = list.data?.rows.find((row) => row.id === id)
  return (
    <>
      <Panel
        title="Instance"
        live={list}
        tools={
          <>
            {found && <Drain row={found} />}
            <CloseButton onClose={() => setParams({ instance: undefined })} />
          </>
        }
      >
        {list.data && !found && (
          <Empty title={`The instance ${visible(id).slice(0, 80)} no longer exists.`}>
            A clean shutdown removes an instance from the list. Schedules, jobs and names still show its past work.
          </Empty>
        )}
        {found && <About row={found} work={work.data ?? undefined} />}
      </Panel>
      {found && work.data && (
        <div class="side-by-side">
          <Panel title="Holds and waits for" live={work} padded={false}>
            <Names work={work.data} />
          </Panel>
          <Panel title="Running" live={work} padded={false}>
            <Runs work={work.data} />
          </Panel>
        </div>
      )}
    </>
  )
}

const states: Readonly<Record<string, string>> = {
  gone: 'the heartbeat stopped without a clean shutdown',
  'drain-requested': 'the instance has not received the request yet',
  draining: 'the instance finishes its current work and starts no new work',
  drained: 'all work has finished; the process is still running',
}

function About({ row, work }: { readonly row: Instance; readonly work: Work | undefined }) {
  const state = stateText(row)
  const refused = Object.entries(row.refusedSettings)
  return (
    <div class="stack">
      {refused.length > 0 && (
        <Notice tone="warn">
          Some settings of its database sessions had no effect:{' '}
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
          row.alive && ['Last heartbeat', <Silence key="silence" row={row} />],
          ['Heartbeat', silenceText(row)],
          [
            'Connection',
            row.isAnchored
              ? `own session, backend PID ${row.pid}`
              : `no session; renews a row within ${formatDuration(row.expiryMs)}`,
          ],
          ['Pooler', row.pooler === 'none' ? 'none' : row.pooler],
          ['Clock', <Clock key="clock" ahead={row.clockAhead} />],
          ['Namespace', <Name key="namespace" text={row.namespace} maxLength={120} />],
          ['Uptime', <Elapsed key="uptime" at={row.openedAt} />],
          [
            'Reconnects',
            row.reconnects === 0 ? (
              'none'
            ) : (
              <span key="reconnects">
                {row.reconnects}, connected since <When at={row.epochSince} />
              </span>
            ),
          ],
          ['Version', `${row.version}${row.node ? `, Node.js ${row.node}` : ''}`],
          work && ['Schedules', work.schedules === 0 ? <None key="schedules" /> : String(work.schedules)],
          work &&
            work.workers.length > 0 && [
              'Workers',
              <span key="workers">
                {work.workers.map(({ number, queues, sleeping }) => (
                  <span key={number} class="row">
                    <Name text={queues.join(', ')} maxLength={60} />
                    <State word={sleeping ? 'idle' : 'busy'} tone={sleeping ? 'quiet' : 'busy'} />
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
    <Name text={label ?? `key ${key}`} href={hrefOf('locks', { key })} />
  )
  const lines: Line[] = [
    ...work.waits.map(
      (wait): Line => ({
        id: `waits ${wait.key} ${wait.kind} ${wait.mode}`,
        what: 'waits for',
        tone: 'wait',
        name: wait.kind === 'permit' ? <Name text={wait.label ?? `key ${wait.key}`} /> : named(wait),
        more: wait.kind === 'lock' ? wait.mode : wait.kind,
        since: wait.since,
      }),
    ),
    ...work.leads.map(
      ({ namespace, name, since }): Line => ({
        id: `leads ${namespace} ${name}`,
        what: 'leads',
        tone: 'good',
        name: <Name text={name} />,
        more: 'election',
        since,
      }),
    ),
    ...work.holds.map(
      (hold): Line => ({
        id: `holds ${hold.key} ${hold.mode}`,
        what: 'holds',
        tone: 'good',
        name: named(hold),
        more: `${hold.mode}${hold.fence ? `, fence ${hold.fence}` : ''}`,
        since: hold.since,
      }),
    ),
    ...work.leases.map(
      (lease): Line => ({
        id: `leases ${lease.key}`,
        what: 'leases',
        tone: 'good',
        name: named(lease),
        more: `fence ${lease.fence}${lease.hasWaiters ? ', contended' : ''}`,
        since: lease.since,
      }),
    ),
    ...work.permits.map(
      ({ namespace, name, weight, granted, since }, at): Line => ({
        id: `permit ${namespace} ${name} ${at}`,
        what: granted ? 'holds permits' : 'waits for permits',
        tone: granted ? 'good' : 'wait',
        name: <Name text={name} href={hrefOf('limits', { limit: name, of: namespace })} />,
        more: String(weight),
        since,
      }),
    ),
  ]
  return <Lines label="Holds and waits for" lines={lines} empty="The instance holds nothing and waits for nothing." />
}

function Runs({ work }: { readonly work: Work }) {
  const lines: Line[] = [
    ...work.jobs.map(
      ({ id, kind, queue, progress, cancelled, since }): Line => ({
        id: `job ${id}`,
        what: 'job',
        tone: 'busy',
        name: (
          <a href={hrefOf('jobs', { id })}>
            <Name text={kind} /> {id}
          </a>
        ),
        more: [queue, progress !== null && `${Math.round(progress * 100)} %`, cancelled !== null && 'stop requested']
          .filter(Boolean)
          .join(', '),
        since,
      }),
    ),
    ...work.runs.map(
      ({ namespace, name, tick, extra, since }): Line => ({
        id: `run ${namespace} ${name} ${tick} ${extra}`,
        what: 'tick',
        tone: 'busy',
        name: <Name text={name} href={hrefOf('schedules', { schedule: name, of: namespace })} />,
        more: <When at={tick} />,
        since,
      }),
    ),
    ...work.deliveries.map(
      ({ namespace, key, since }): Line => ({
        id: `delivery ${namespace} ${key}`,
        what: 'delivery',
        tone: 'busy',
        name: <Name text={key} href={hrefOf('deliveries', { of: namespace, key })} />,
        more: '',
        since,
      }),
    ),
  ]
  return <Lines label="Running" lines={lines} empty="Nothing is running." />
}

interface LinesProps {
  readonly label: string
  readonly lines: readonly Line[]
  readonly empty: string
}

function Lines({ label, lines, empty }: LinesProps) {
  return (
    <Table
      label={label}
      rows={lines}
      keyOf={({ id }) => id}
      columns={[
        { title: 'Activity', cell: ({ what, tone }) => <State word={what} tone={tone} />, sort: ({ what }) => what },
        { title: 'Name', cell: ({ name }) => name, wide: true },
        { title: 'Details', cell: ({ more }) => <span class="muted">{more}</span> },
        { title: 'For', since: ({ since }) => since },
      ]}
      empty={<Empty title={empty} />}
    />
  )
}
