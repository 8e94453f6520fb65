import { useState } from 'preact/hooks'
import { cut, formatDuration, formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { InstanceMark } from '../../parts/instance-mark.js'
import { Name, QueueName } from '../../parts/name.js'
import { Empty } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { type Column, TablePanel } from '../../parts/table.js'
import { Age, Ago, None, Until } from '../../parts/time.js'
import { currentDatabase, hrefOf, hrefOfQueue } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import { LastRun } from '../schedules/cells.js'

type Overview = ViewData<'overview'>
/** A problem. `database` is set in the list of all databases. */
type Trouble = Overview['trouble'][number] & { readonly database?: string }
/** A queue, with the time of its snapshot. `database` is set in the list of all databases. */
type Queue = Overview['queues'][number] & { readonly at: string | undefined; readonly database?: string }

interface OverviewProps {
  readonly overview: LiveView<Overview>
}

/** Number of problems that are shown at first, so that the waits below them remain visible. */
const maxProblems = 5

interface ProblemPanelProps {
  readonly live: LiveView<unknown>
  readonly trouble: readonly Trouble[]
  /** Column that replaces the instances if the problems come from several databases. */
  readonly database?: Column<Trouble>
}

export function ProblemPanel({ live, trouble, database }: ProblemPanelProps) {
  const [isAll, setAll] = useState(false)
  return (
    <TablePanel
      title="Problems in the last hour"
      label="Problems"
      live={live}
      count={trouble.length}
      tools={
        trouble.length > maxProblems && (
          <button type="button" class="button bare" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? 'Show less' : 'Show all'}
          </button>
        )
      }
      rows={isAll ? trouble : trouble.slice(0, maxProblems)}
      keyOf={({ kind, at, subject, job, instance, database }) =>
        `${database} ${kind} ${at} ${subject} ${job} ${instance}`
      }
      columns={[
        ...(database ? [database] : []),
        {
          title: 'Problem',
          cell: ({ kind }) => <State word={kindTexts[kind]} tone={kind === 'reconnected' ? 'warn' : 'bad'} />,
        },
        {
          title: 'Where',
          cell: (one) => (
            <Name
              text={one.job === null ? one.subject : `${one.subject} job ${one.job}`}
              maxLength={32}
              href={hrefOfTrouble(one)}
            />
          ),
        },
        { title: 'Reason', cell: ({ detail }) => <bdi>{cut(detail, 300)}</bdi>, wide: true },
        ...(database ? [] : [instanceColumn]),
        { title: 'When', cell: ({ at }) => (at ? <Ago at={at} /> : 'now'), align: 'end' },
      ]}
      empty={<Empty title="No problems in the last hour." />}
    />
  )
}

const instanceColumn: Column<Trouble> = {
  title: 'Instance',
  cell: ({ instance, instanceName }) => instance && <InstanceMark id={instance} name={instanceName} short />,
  spare: 2,
}

const kindTexts: Readonly<Record<Trouble['kind'], string>> = {
  buried: 'job failed',
  failed: 'run failed',
  broken: 'run broken',
  gap: 'ticks skipped',
  lease: 'lease lost',
  reconnected: 'reconnected',
  gone: 'instance lost',
}

function hrefOfTrouble({ kind, subject, job, instance, namespace, database = currentDatabase() }: Trouble): string {
  switch (kind) {
    case 'buried':
      return job === null ? hrefOfQueue(subject, database) : hrefOf('jobs', { id: String(job), database })
    case 'failed':
    case 'broken':
    case 'gap':
      return hrefOf('schedules', { schedule: subject, of: namespace ?? undefined, database })
    case 'lease':
      return hrefOf('locks', { search: subject, database })
    case 'reconnected':
    case 'gone':
      return hrefOf('instances', { instance: instance ?? undefined, database })
  }
}

interface QueuePanelProps {
  readonly live: LiveView<unknown>
  readonly queues: readonly Queue[]
  readonly count: number | undefined
  /** First column if the queues come from several databases. */
  readonly database?: Column<Queue>
}

export function QueuePanel({ live, queues, count, database }: QueuePanelProps) {
  return (
    <TablePanel
      title="Queues"
      live={live}
      count={count}
      rows={queues}
      keyOf={({ key, database }) => `${database} ${key}`}
      columns={[
        ...(database ? [database] : []),
        {
          title: 'Queue',
          cell: ({ name, key, pausedMs, database }) => (
            <span class="row">
              <QueueName name={name} queueKey={key} maxLength={28} database={database} />
              {pausedMs !== null && <State word="paused" />}
            </span>
          ),
          sort: ({ name }) => name,
          wide: true,
        },
        { title: 'Ready', cell: readyText, sort: ({ ready }) => ready, align: 'end' },
        { title: 'Running', number: ({ running }) => running, cell: ({ running }) => formatNumber(running) },
        {
          title: 'Waiting',
          number: ({ waiting }) => waiting,
          cell: ({ waiting }) => (waiting > 1_000 ? '1,000+' : formatNumber(waiting)),
          spare: 2,
        },
        {
          title: 'Oldest',
          age: ({ oldestMs }) => oldestMs,
          cell: ({ oldestMs, at }) => <Age ms={oldestMs} from={at} />,
          spare: 1,
        },
        { title: 'Done/s', number: ({ donePerSecond }) => donePerSecond },
        {
          title: 'p99 run time',
          cell: ({ took }) => (took ? formatDuration(took.p99Ms) : <None text="no job ended" />),
          align: 'end',
          spare: 1,
        },
      ]}
      empty={
        <Empty title="No queues yet." code="await holdfast.jobs.enqueue(sendEmail, { to })">
          Each queue appears here with its ready and running jobs and its throughput.
        </Empty>
      }
    />
  )
}

function readyText({ ready, readyIs }: Pick<Queue, 'ready' | 'readyIs'>): string {
  if (readyIs === 'counted') return formatNumber(ready)
  return readyIs === 'estimated' ? `~${formatNumber(ready)}` : `${formatNumber(ready - 1)}+`
}

export function NextTicks({ overview }: OverviewProps) {
  return (
    <TablePanel
      title="Next runs"
      live={overview}
      count={overview.data?.counts.schedules}
      rows={overview.data?.schedules ?? []}
      keyOf={({ key }) => key}
      columns={[
        {
          title: 'Schedule',
          cell: ({ name, namespace }) => (
            <Name text={name} maxLength={28} href={hrefOf('schedules', { schedule: name, of: namespace })} />
          ),
          wide: true,
        },
        {
          title: 'Next',
          cell: ({ paused, nextAt }) =>
            paused ? <State word="paused" /> : nextAt ? <Until at={nextAt} /> : <None text="no more ticks" />,
          align: 'end',
        },
        { title: 'Last run', cell: ({ last }) => <LastRun last={last} /> },
        { title: 'Running', number: ({ running }) => running, cell: ({ running }) => running || <None />, spare: 2 },
        { title: 'Since last tick', since: ({ last }) => last?.tick, spare: 1 },
      ]}
      empty={
        <Empty
          title="No schedules yet."
          code="holdfast.schedules.add('hourly-report', { cron: '0 * * * *' }, async (run) => { … })"
        >
          Each schedule appears here with its next tick, the nearest first.
        </Empty>
      }
    />
  )
}
