import { useState } from 'preact/hooks'
import { cut, formatDuration, formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { InstanceMark } from '../../parts/instance-mark.js'
import { Name, QueueName } from '../../parts/name.js'
import { Empty } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { TablePanel } from '../../parts/table.js'
import { Ago, None, Until } from '../../parts/time.js'
import { hrefOf, hrefOfQueue } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import { LastRun } from '../schedules/cells.js'

type Overview = ViewData<'overview'>
type Trouble = Overview['trouble'][number]
type Queue = Overview['queues'][number]

interface OverviewProps {
  readonly overview: LiveView<Overview>
}

/** Number of problems that are shown at first, so that the waits below them stay in sight. */
const maxProblems = 5

export function Problems({ overview }: OverviewProps) {
  const [isAll, setAll] = useState(false)
  const trouble = overview.data?.trouble ?? []
  return (
    <TablePanel
      title="Problems in the last hour"
      label="Problems"
      live={overview}
      count={trouble.length}
      tools={
        trouble.length > maxProblems && (
          <button type="button" class="button bare" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? 'Show less' : 'Show all'}
          </button>
        )
      }
      rows={isAll ? trouble : trouble.slice(0, maxProblems)}
      keyOf={({ kind, at, subject, job, instance }) => `${kind} ${at} ${subject} ${job} ${instance}`}
      columns={[
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
        {
          title: 'Instance',
          cell: ({ instance, instanceName }) => instance && <InstanceMark id={instance} name={instanceName} short />,
          spare: 2,
        },
        { title: 'When', cell: ({ at }) => (at ? <Ago at={at} /> : 'now'), align: 'end' },
      ]}
      empty={<Empty title="No problems in the last hour." />}
    />
  )
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

function hrefOfTrouble({ kind, subject, job, instance, namespace }: Trouble): string {
  switch (kind) {
    case 'buried':
      return job === null ? hrefOfQueue(subject) : hrefOf('jobs', { id: String(job) })
    case 'failed':
    case 'broken':
    case 'gap':
      return hrefOf('schedules', { schedule: subject, of: namespace ?? undefined })
    case 'lease':
      return hrefOf('locks', { search: subject })
    case 'reconnected':
    case 'gone':
      return hrefOf('instances', { instance: instance ?? undefined })
  }
}

export function Queues({ overview }: OverviewProps) {
  return (
    <TablePanel
      title="Queues"
      live={overview}
      count={overview.data?.counts.queues}
      rows={overview.data?.queues ?? []}
      keyOf={({ key }) => key}
      columns={[
        {
          title: 'Queue',
          cell: ({ name, key, pausedMs }) => (
            <span class="row">
              <QueueName name={name} queueKey={key} maxLength={28} />
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
        { title: 'Oldest', age: ({ oldestMs }) => oldestMs, from: overview.at, spare: 1 },
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

function readyText({ ready, readyIs }: Queue): string {
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
