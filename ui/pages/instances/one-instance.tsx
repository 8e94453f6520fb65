import type { ComponentChildren } from 'preact'
import { shareOf } from '../../../src/base/job-progress.js'
import { formatDuration, formatNumber, shorten, visible } from '../../format.js'
import { stateText } from '../../graphics/heartbeats.js'
import { type LiveView, useView } from '../../live.js'
import { Copy } from '../../parts/copy.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { InstanceMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
import { Empty, Panel } from '../../parts/panel.js'
import { Notice, State, type Tone } from '../../parts/state.js'
import { TablePanel } from '../../parts/table.js'
import { Elapsed, None, When } from '../../parts/time.js'
import { hrefOf, setParams } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import { Clock, Drain, type Instance, Silence } from './cells.js'

type Work = NonNullable<ViewData<'instance'>>

export function OneInstance({ id }: { readonly id: string }) {
  const list = useView('instances', { search: id })
  const work = useView('instance', { id })
  const found = list.data?.rows.find((row) => row.id === id)
  return (
    <Dialog
      kind="side"
      title={`Instance ${found ? shorten(found.name, 60) : ''}`}
      onClose={() => setParams({ instance: undefined })}
    >
      <Panel title="Now" live={list} tools={found && <Drain row={found} />}>
        {list.data && !found && (
          <Empty title={`The instance ${visible(id).slice(0, 80)} no longer exists.`}>
            A clean shutdown removes an instance from the list. Schedules, jobs and names still show its past work.
          </Empty>
        )}
        {found && <About row={found} work={work.data ?? undefined} />}
      </Panel>
      {found && work.data && (
        <div class="side-by-side">
          <Names live={work} work={work.data} />
          <Runs live={work} work={work.data} />
        </div>
      )}
    </Dialog>
  )
}

const states: Readonly<Record<string, string>> = {
  gone: 'the heartbeat stopped without a clean shutdown',
  'drain-requested': 'the instance has not received the drain request yet',
  draining: 'the instance is finishing its current work and is not starting new work',
  drained: 'all work has ended; the process is still running',
}

function About({ row, work }: { readonly row: Instance; readonly work: Work | undefined }) {
  const state = stateText(row)
  const refused = Object.entries(row.refusedSettings)
  return (
    <div class="stack">
      {refused.length > 0 && (
        <Notice tone="warn">
          Some settings of its database sessions had no effect:{' '}
          {refused.map(([name, { wanted, got }]) => `${name} is ${got ?? 'unknown'} instead of ${wanted}`).join('; ')}.
        </Notice>
      )}
      <Facts
        facts={[
          ['Instance', <InstanceMark key="mark" id={row.id} name={row.name} link={false} />],
          ['Process', `${row.osPid} on ${row.host}`],
          [
            'ID',
            <span key="id" class="row">
              <code>{row.id}</code>
              <Copy text={row.id} subject="the ID" />
            </span>,
          ],
          [
            'State',
            <span key="state" class="row">
              <State word={state} />
              {states[state] && <span class="muted">{states[state]}</span>}
              {work?.drainWithinMs != null && <span class="muted">within {formatDuration(work.drainWithinMs)}</span>}
            </span>,
          ],
          row.alive && ['Last heartbeat', <Silence key="silence" row={row} />],
          [
            'Connection',
            row.isAnchored
              ? `has its own session, with backend PID ${row.pid}`
              : `has no session; renews its row at least every ${formatDuration(row.expiryMs)}`,
          ],
          ['Pooler', row.pooler === 'none' ? 'none' : row.pooler],
          ['Clock', <Clock key="clock" ahead={row.clockAheadMs} />],
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

type Line = readonly [
  what: string,
  tone: Tone,
  name: ComponentChildren,
  details: ComponentChildren,
  since: string | null,
  id: string,
]

interface WorkProps {
  readonly live: LiveView<unknown>
  readonly work: Work
}

function Names({ live, work }: WorkProps) {
  const nameOf = ({ key, label }: { readonly key: string; readonly label: string | null }) => (
    <Name text={label ?? `key ${key}`} href={hrefOf('locks', { key })} />
  )
  const lines = [
    ...work.waits.map((wait): Line => {
      const name = wait.kind === 'permit' ? <Name text={wait.label ?? `key ${wait.key}`} /> : nameOf(wait)
      const details = wait.kind === 'lock' ? wait.mode : wait.kind
      return ['waits for', 'wait', name, details, wait.since, `${wait.key} ${wait.kind} ${wait.mode}`]
    }),
    ...work.leads.map(({ namespace, name, since }): Line => {
      return ['leads', 'good', <Name key="name" text={name} />, 'election', since, `${namespace} ${name}`]
    }),
    ...work.holds.map((hold): Line => {
      const details = `${hold.mode}${hold.fence ? `, fence ${hold.fence}` : ''}`
      return ['holds', 'good', nameOf(hold), details, hold.since, `${hold.key} ${hold.mode}`]
    }),
    ...work.leases.map((lease): Line => {
      const details = `fence ${lease.fence}${lease.hasWaiters ? ', contended' : ''}`
      return ['leases', 'good', nameOf(lease), details, lease.since, lease.key]
    }),
    ...work.permits.map(({ namespace, name, weight, granted, since }, at): Line => {
      const link = <Name text={name} href={hrefOf('limits', { limit: name, of: namespace })} />
      const [what, tone] = granted ? (['holds permits', 'good'] as const) : (['waits for permits', 'wait'] as const)
      return [what, tone, link, weight, since, `${namespace} ${name} ${at}`]
    }),
  ]
  const empty = 'The instance holds nothing and waits for nothing.'
  return <Lines title="Holds and waits for" live={live} lines={lines} empty={empty} />
}

function Runs({ live, work }: WorkProps) {
  const lines = [
    ...work.jobs.map(({ id, kind, queue, progress, cancelled, since }): Line => {
      const link = (
        <a href={hrefOf('jobs', { id })}>
          <Name text={kind} /> {id}
        </a>
      )
      const share = progress === null ? undefined : shareOf(progress)
      const percent = share !== undefined && `${Math.round(share * 100)} %`
      const details = [queue, percent, cancelled !== null && 'stop requested'].filter(Boolean).join(', ')
      return ['job', 'busy', link, details, since, id]
    }),
    ...work.runs.map(({ namespace, name, tick, extra, since }): Line => {
      const link = <Name text={name} href={hrefOf('schedules', { schedule: name, of: namespace })} />
      return ['tick', 'busy', link, <When key="tick" at={tick} />, since, `${namespace} ${name} ${tick} ${extra}`]
    }),
    ...work.deliveries.map(({ namespace, key, since }): Line => {
      const link = <Name text={key} href={hrefOf('deliveries', { of: namespace, key })} />
      return ['delivery', 'busy', link, '', since, `${namespace} ${key}`]
    }),
  ]
  const { searchedDeliveries: searched } = work
  const description = searched !== null && `Only the latest ${formatNumber(searched)} deliveries were searched.`
  return <Lines title="Running" live={live} lines={lines} empty="Nothing is running." description={description} />
}

interface LinesProps {
  readonly title: string
  readonly live: LiveView<unknown>
  readonly lines: readonly Line[]
  readonly empty: string
  readonly description?: ComponentChildren
}

function Lines({ title, live, lines, empty, description }: LinesProps) {
  return (
    <TablePanel
      title={title}
      live={live}
      description={description}
      rows={lines}
      keyOf={([what, , , , , id]) => `${what} ${id}`}
      columns={[
        { title: 'Activity', cell: ([what, tone]) => <State word={what} tone={tone} />, sort: ([what]) => what },
        { title: 'Name', cell: ([, , name]) => name, wide: true },
        { title: 'Details', cell: ([, , , details]) => <span class="muted">{details}</span> },
        { title: 'For', since: ([, , , , since]) => since },
      ]}
      empty={<Empty title={empty} />}
    />
  )
}
