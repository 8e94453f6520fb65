// All databases of the dashboard: their states, the totals of their counts, and their problems.
import './now/counts.css'
import type { ComponentChildren } from 'preact'
import { formatNumber } from '../format.js'
import { type LiveView, useViewIn } from '../live.js'
import { useMe } from '../me.js'
import { Page } from '../parts/page.js'
import { Shape, State, type Tone } from '../parts/state.js'
import { TablePanel } from '../parts/table.js'
import { Age, Elapsed } from '../parts/time.js'
import { go } from '../routes.js'
import type { ViewData } from '../wire.js'
import { ProblemPanel, QueuePanel } from './now/overview-panels.js'

interface DatabaseRow {
  readonly name: string
  readonly live: LiveView<ViewData<'overview'>>
}

export function Databases() {
  const { databases } = useMe()
  const views = useViewIn(databases, 'overview', {})
  const rows = databases.map((name, at): DatabaseRow => ({ name, live: views[at]! }))
  const known = rows.filter(({ live }) => live.data !== undefined)
  const failed = rows.filter(({ live }) => live.failure !== undefined)
  // The panels contain data as soon as one database has responded. The first panel shows the failures.
  const first = known[0]?.live ?? views[0]!
  const all = { ...first, failure: undefined, failedAt: undefined, stale: views.every(({ stale }) => stale) }
  const sum = (of: (data: ViewData<'overview'>) => number) =>
    known.length === 0 ? undefined : known.reduce((total, { live }) => total + of(live.data!), 0)
  const gone = sum(({ counts }) => counts.gone)
  const trouble = known.flatMap(({ name, live }) => live.data!.trouble.map((one) => ({ ...one, database: name })))
  const queues = known.flatMap(({ name, live }) =>
    live.data!.queues.map((queue) => ({ ...queue, at: live.at, database: name })),
  )
  const databaseColumn = {
    title: 'Database',
    name: ({ database }: { readonly database?: string }) => database ?? '',
    maxLength: 24,
  }
  return (
    <Page>
      <ul class="counts" aria-label="Totals of all databases">
        <Sum title="Databases" count={databases.length} tone={failed.length > 0 ? 'bad' : undefined}>
          {failed.length > 0 ? `${failed.length} unavailable` : known.length > 0 ? 'all available' : ''}
        </Sum>
        <Sum title="Instances" count={sum(({ counts }) => counts.instances)} tone={gone ? 'bad' : undefined}>
          {gone ? `${formatNumber(gone)} lost` : 'all alive'}
        </Sum>
        <Sum title="Queues" count={sum(({ counts }) => counts.queues)}>
          {formatNumber(queues.filter(({ pausedMs }) => pausedMs !== null).length)}
          {known.some(({ live }) => areMoreQueues(live.data!)) && '+'} paused
        </Sum>
        <Sum title="Ready" count={sum(readyIn)} isMore={known.some(({ live }) => hasMore(live.data!))}>
          {formatNumber(sum(runningIn) ?? 0)}
          {known.some(({ live }) => areMoreQueues(live.data!)) && '+'} running
        </Sum>
        <Sum title="Schedules" count={sum(({ counts }) => counts.schedules)} />
        <Sum title="Problems" count={sum((data) => data.trouble.length)} tone={trouble.length > 0 ? 'bad' : undefined}>
          in the last hour
        </Sum>
      </ul>
      <TablePanel
        title="Databases"
        live={failed.length === rows.length ? { ...all, data: rows } : all}
        count={rows.length}
        rows={rows}
        keyOf={({ name }) => name}
        onOpen={({ name }) => go('now', { database: name, namespace: undefined })}
        columns={[
          { title: 'Database', name: ({ name }) => name },
          { title: 'State', cell: ({ live }) => <DatabaseState live={live} />, wide: true },
          {
            title: 'Instances',
            number: ({ live }) => live.data?.counts.instances,
            cell: ({ live: { data } }) =>
              data && (
                <>
                  {formatNumber(data.counts.instances)}
                  {data.counts.gone > 0 && <State word={` ${data.counts.gone} lost`} tone="bad" />}
                </>
              ),
          },
          { title: 'Queues', number: ({ live }) => live.data?.counts.queues, spare: 1 },
          {
            title: 'Ready',
            number: ({ live }) => live.data && readyIn(live.data),
            cell: ({ live: { data } }) => data && `${formatNumber(readyIn(data))}${hasMore(data) ? '+' : ''}`,
          },
          {
            title: 'Running',
            number: ({ live }) => live.data && runningIn(live.data),
            cell: ({ live: { data } }) => data && `${formatNumber(runningIn(data))}${areMoreQueues(data) ? '+' : ''}`,
          },
          {
            title: 'Oldest',
            age: ({ live }) => oldestIn(live.data),
            cell: ({ live: { data, at } }) => <Age ms={oldestIn(data)} from={at} />,
            spare: 2,
          },
          { title: 'Done/s', number: ({ live }) => live.data && doneIn(live.data) },
          { title: 'Problems', number: ({ live }) => live.data?.trouble.length },
        ]}
        empty={null}
      />
      <ProblemPanel
        live={all}
        trouble={trouble.toSorted((one, other) => (one.agoMs ?? 0) - (other.agoMs ?? 0))}
        database={databaseColumn}
      />
      <QueuePanel
        live={all}
        queues={queues.toSorted((one, other) => other.ready - one.ready)}
        count={sum(({ counts }) => counts.queues)}
        database={databaseColumn}
      />
    </Page>
  )
}

function readyIn({ queues }: ViewData<'overview'>): number {
  return queues.reduce((total, { ready }) => total + ready, 0)
}

function runningIn({ queues }: ViewData<'overview'>): number {
  return queues.reduce((total, { running }) => total + running, 0)
}

function doneIn({ queues }: ViewData<'overview'>): number {
  return Math.round(queues.reduce((total, { donePerSecond }) => total + donePerSecond, 0) * 100) / 100
}

/** Returns the age of the oldest ready job. */
function oldestIn(data: ViewData<'overview'> | undefined): number | null {
  const ages = data?.queues.flatMap(({ oldestMs }) => (oldestMs === null ? [] : [oldestMs])) ?? []
  return ages.length === 0 ? null : Math.max(...ages)
}

/** Returns true if there are more ready jobs than were counted. */
function hasMore(data: ViewData<'overview'>): boolean {
  return areMoreQueues(data) || data.queues.some(({ readyIs }) => readyIs !== 'counted')
}

/** Returns true if there are queues that the overview does not list. */
function areMoreQueues({ queues, counts }: ViewData<'overview'>): boolean {
  return counts.queues > queues.length
}

function DatabaseState({ live: { data, failure, failedAt } }: { readonly live: DatabaseRow['live'] }) {
  if (!failure) return data ? <State word="available" tone="good" /> : <State word="connecting" />
  const isDown = failure.code === 'DATABASE_UNREACHABLE'
  return (
    <>
      <State word={isDown ? 'unreachable' : 'unavailable'} tone="bad" />{' '}
      <span class="muted">
        for <Elapsed at={failedAt} />: <bdi>{failure.message}</bdi>
      </span>
    </>
  )
}

interface SumProps {
  readonly title: string
  readonly count: number | undefined
  /** Whether there are more than `count`. */
  readonly isMore?: boolean
  readonly tone?: Tone | undefined
  readonly children?: ComponentChildren
}

function Sum({ title, count, isMore, tone, children }: SumProps) {
  return (
    <li class="tile card">
      <span class="tile-title muted small">{title}</span>
      <span class="tile-count">{count === undefined ? '–' : `${formatNumber(count)}${isMore ? '+' : ''}`}</span>
      <span class={`tile-text muted ${tone ?? ''}`}>
        {tone && <Shape tone={tone} />}
        {count === undefined ? '' : children}
      </span>
    </li>
  )
}
