import { formatDuration, formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { Empty } from '../../parts/empty.js'
import { InstanceMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
import { Panel } from '../../parts/panel.js'
import { QueueName } from '../../parts/queue-name.js'
import { State } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { Age, Ago, Elapsed, None } from '../../parts/time.js'
import { hrefOf, hrefOfQueue } from '../../routes.js'
import type { ViewData } from '../../wire.js'

type Overview = ViewData<'overview'>
type Trouble = Overview['trouble'][number]
type Queue = Overview['queues'][number]

interface OverviewProps {
  readonly overview: LiveView<Overview>
}

/** What went wrong lately, each leading to what it is about. */
export function TroubleList({ overview }: OverviewProps) {
  const trouble = overview.data?.trouble ?? []
  return (
    <Panel title="Trouble of the last hour" live={overview} count={trouble.length} padded={false}>
      <Table
        label="Trouble"
        rows={trouble}
        keyOf={({ kind, at, subject, job, instance }) => `${kind} ${at} ${subject} ${job} ${instance}`}
        columns={[
          {
            title: 'What',
            cell: ({ kind }) => <State word={kindTexts[kind]} tone={kind === 'reconnected' ? 'warn' : 'bad'} />,
          },
          {
            title: 'Of',
            cell: (one) => (
              <a href={hrefOfTrouble(one)}>
                <Name text={one.job === null ? one.subject : `${one.subject} job ${one.job}`} maxLength={32} />
              </a>
            ),
          },
          { title: 'Why', cell: ({ detail }) => <bdi>{short(detail)}</bdi>, wide: true },
          { title: 'Instance', cell: ({ instance }) => instance && <InstanceMark id={instance} />, spare: 2 },
          { title: 'When', cell: ({ at }) => (at ? <Ago at={at} /> : 'now'), align: 'end' },
        ]}
        empty={<Empty title="Nothing went wrong in the last hour." />}
      />
    </Panel>
  )
}

const kindTexts: Readonly<Record<Trouble['kind'], string>> = {
  buried: 'job buried',
  failed: 'run failed',
  broken: 'run broken',
  gap: 'no run',
  lease: 'lease lost',
  reconnected: 'reconnected',
  gone: 'gone',
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

const maxLetters = 300

function short(text: string): string {
  return text.length > maxLetters ? `${text.slice(0, maxLetters)}…` : text
}

/** How much is in which queue. */
export function Queues({ overview }: OverviewProps) {
  const queues = overview.data?.queues ?? []
  return (
    <Panel title="Queues" live={overview} count={overview.data?.counts.queues} padded={false}>
      <Table
        label="Queues"
        rows={queues}
        total={overview.data?.counts.queues}
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
          {
            title: 'Running',
            cell: ({ running }) => formatNumber(running),
            sort: ({ running }) => running,
            align: 'end',
          },
          {
            title: 'Waiting',
            cell: ({ waiting }) => (waiting > 1_000 ? '1,000+' : formatNumber(waiting)),
            sort: ({ waiting }) => waiting,
            align: 'end',
            spare: 2,
          },
          {
            title: 'Oldest',
            cell: ({ oldestMs }) => <Age ms={oldestMs} from={overview.at} />,
            align: 'end',
            spare: 1,
          },
          {
            title: 'Done/s',
            cell: ({ donePerSecond }) => donePerSecond,
            sort: ({ donePerSecond }) => donePerSecond,
            align: 'end',
          },
          {
            title: 'p99',
            cell: ({ took }) => (took ? formatDuration(took.p99Ms) : <None text="nothing ended" />),
            align: 'end',
            spare: 1,
          },
        ]}
        empty={
          <Empty title="No queue was used yet." code="await holdfast.jobs.enqueue(sendEmail, { to })">
            Each queue has its row here: what is ready, what runs, and how fast it goes.
          </Empty>
        }
      />
    </Panel>
  )
}

function readyText({ ready, readyIs }: Queue): string {
  if (readyIs === 'counted') return formatNumber(ready)
  return readyIs === 'estimated' ? `~${formatNumber(ready)}` : `${formatNumber(ready - 1)}+`
}

/** What ticks next. */
export function NextTicks({ overview }: OverviewProps) {
  return (
    <Panel title="Next ticks" live={overview} count={overview.data?.counts.schedules} padded={false}>
      <Table
        label="Next ticks"
        rows={overview.data?.schedules ?? []}
        total={overview.data?.counts.schedules}
        keyOf={({ key }) => key}
        columns={[
          {
            title: 'Schedule',
            cell: ({ name, namespace }) => (
              <a href={hrefOf('schedules', { schedule: name, of: namespace })}>
                <Name text={name} maxLength={28} />
              </a>
            ),
            wide: true,
          },
          {
            title: 'Next',
            cell: ({ paused, nextAt }) =>
              paused ? <State word="paused" /> : nextAt ? <Ago at={nextAt} /> : <None text="no more ticks" />,
            align: 'end',
          },
          {
            title: 'Last run',
            cell: ({ last }) =>
              last ? (
                <span class="last-run">
                  <State word={last.state} />
                  {last.instance && <InstanceMark id={last.instance} />}
                </span>
              ) : (
                <None text="none yet" />
              ),
          },
          {
            title: 'Running',
            cell: ({ running }) => running || <None />,
            align: 'end',
            spare: 2,
          },
          { title: 'Tick', cell: ({ last }) => <Elapsed at={last?.tick} />, align: 'end', spare: 1 },
        ]}
        empty={
          <Empty
            title="No schedule is known."
            code="holdfast.schedules.add('hourly-report', { cron: '0 * * * *' }, async (run) => { … })"
          >
            The next tick of each stands here, the nearest first.
          </Empty>
        }
      />
    </Panel>
  )
}
