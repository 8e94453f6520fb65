import './jobs/jobs.css'
import { useRef, useState } from 'preact/hooks'
import { useNow } from '../clock.js'
import { formatNumber } from '../format.js'
import { countOf, flowOf, formatJobs, formatRate, JobFlow, waitReasons } from '../graphics/job-flow.js'
import { LatencyChart, LatencyTable, type Measure, pointsOf, queueIdOf } from '../graphics/latency.js'
import { type LiveView, useView } from '../live.js'
import { Choice } from '../parts/choice.js'
import { Act, PauseOrResume } from '../parts/confirm.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { Name, QueueName } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Empty, Panel } from '../parts/panel.js'
import { State } from '../parts/state.js'
import { Table, TablePanel } from '../parts/table.js'
import { Ago, Elapsed, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { Enqueue } from './jobs/enqueue.js'
import { OneJob } from './jobs/one-job.js'
import { JobSearch, parseMistake } from './jobs/search.js'

type Queues = ViewData<'queues'>
type Queue = Queues['rows'][number]
type JobResult = ViewData<'jobs'>['rows'][number]

export function Jobs() {
  const { namespace, search = '', id } = useParams<'jobs'>()
  // While the search text is invalid, the page keeps the last valid search's results.
  const good = useRef('')
  if (!parseMistake(search)) good.current = search
  const queues = useView('queues', { namespace })
  const jobs = useView('jobs', { namespace, search: good.current })
  const kinds = [...new Set(jobs.data?.rows.map(({ kind }) => kind))].sort()
  const isSearched = good.current !== ''
  const list = <JobList key="list" live={jobs} isSearched={isSearched} opened={id} />
  return (
    <Page
      tools={
        <>
          <JobSearch queues={queues.data?.rows.flatMap(({ name }) => name ?? []) ?? []} kinds={kinds} />
          <Enqueue
            label="Enqueue a job"
            given={{ namespace: namespace ?? 'default', queue: '', kind: '', input: '{}' }}
          />
        </>
      }
    >
      {id && <OneJob key={id} id={id} />}
      {isSearched && list}
      <div class="jobs-graphics stack">
        <FlowPanel live={queues} />
        <LatencyPanel namespace={namespace} />
      </div>
      <QueueList live={queues} />
      {!isSearched && list}
    </Page>
  )
}

function FlowPanel({ live }: { readonly live: LiveView<Queues> }) {
  const flow = flowOf(live.data?.rows ?? [])
  const { counts, rates } = flow
  const row = (state: string, jobs: string, rate: number | null) => ({ state, jobs, rate })
  const rows = [
    row('enqueued', '', rates.enqueued),
    ...waitReasons.map(({ state, text }) =>
      row(`waiting: ${text}`, formatJobs(counts[state]), state === 'retrying' ? rates.retried : null),
    ),
    row('ready', formatJobs(counts.ready), null),
    row('running', formatJobs(counts.running), null),
    row('done', '', rates.done),
    ...(['buried', 'cancelled', 'discarded'] as const).map((state) =>
      row(state, formatJobs(counts[state]), rates[state]),
    ),
  ]
  return (
    <Panel
      title="Job flow"
      live={live}
      description="Rates for the last minute. By default, finished jobs are deleted after 7 days."
      table={
        <Table
          label="Jobs by state"
          rows={rows}
          keyOf={({ state }) => state}
          columns={[
            { title: 'State', cell: ({ state }) => state, wide: true },
            { title: 'Jobs', cell: ({ jobs }) => jobs || <None text="not counted" />, align: 'end' },
            {
              title: 'Per minute',
              cell: ({ rate }) => (rate === null ? <None text="not counted" /> : formatRate(rate)),
              align: 'end',
            },
          ]}
          empty={null}
        />
      }
    >
      <JobFlow flow={flow} />
    </Panel>
  )
}

const measureTexts = {
  waited: 'Waiting time, from enqueueing to claim',
  took: 'Run time, from claim to completion',
} as const

function LatencyPanel({ namespace }: { readonly namespace: string | undefined }) {
  const [hours, setHours] = useState(3)
  const [chosen, setChosen] = useState<string>()
  const [measure, setMeasure] = useState<Measure>('waited')
  const live = useView('latencies', { namespace, hours })
  const all = live.data?.queues ?? []
  const queue = all.find((one) => queueIdOf(one) === chosen) ?? all[0]
  const queues = all.map((one) => {
    const namespaceText = namespace ? '' : `${one.namespace.slice(0, 40)} / `
    return [queueIdOf(one), `${namespaceText}${one.queue.slice(0, 60)}`] as const
  })
  const points = live.data && queue ? pointsOf(live.data, queueIdOf(queue), measure) : []
  const label = `${measureTexts[measure]}${queue ? `, queue ${queue.queue}` : ''}`
  return (
    <Panel
      title="Latency"
      live={live}
      description={
        live.data && live.data.oneOf > 1 ? `Based on a sample of 1 in ${live.data.oneOf} ended jobs.` : undefined
      }
      table={queue && <LatencyTable points={points} label={label} />}
      tools={
        <div class="row">
          <Choice
            label="Queue"
            value={queue ? queueIdOf(queue) : ''}
            options={queues.length > 0 ? queues : [['', 'No queue']]}
            onChange={setChosen}
          />
          <Choice<Measure>
            label="Measure"
            value={measure}
            options={[
              ['waited', 'waiting time'],
              ['took', 'run time'],
            ]}
            onChange={setMeasure}
          />
          <Choice
            label="Period"
            value={hours}
            options={[1, 3, 12, 48].map((one) => [one, `${one} h`] as const)}
            onChange={setHours}
          />
        </div>
      }
    >
      {queue ? (
        <LatencyChart points={points} label={label} />
      ) : (
        <Empty title="No jobs ended in this period.">
          This chart shows the median, the 95th and the 99th percentile of the waiting time and of the run time.
        </Empty>
      )}
    </Panel>
  )
}

function QueueList({ live }: { readonly live: LiveView<Queues> }) {
  const many = (jobs: number) => (jobs > 0 ? formatJobs(countOf(jobs)) : <None />)
  const waiting = ({ scheduled, retrying, parked, blocked }: Queue) => scheduled + retrying + parked + blocked
  return (
    <TablePanel
      title="Queues"
      live={live}
      count={live.data?.count}
      rows={live.data?.rows ?? []}
      keyOf={({ key }) => key}
      columns={[
        {
          title: 'Queue',
          wide: true,
          sort: ({ name }) => name,
          cell: ({ name, key }) => <QueueName name={name} queueKey={key} />,
        },
        {
          title: 'State',
          cell: ({ pausedAt, workers, ready }) =>
            pausedAt ? (
              <span title={`paused since ${pausedAt}`}>
                <State word="paused" />
              </span>
            ) : workers === 0 && ready > 0 ? (
              <State word="no worker" tone="bad" />
            ) : (
              <State word="open" />
            ),
        },
        { title: 'Ready', number: ({ ready }) => ready, cell: ({ ready }) => many(ready) },
        { title: 'Running', number: ({ running }) => running, cell: ({ running }) => many(running) },
        { title: 'Waiting', number: waiting, cell: (queue) => many(waiting(queue)) },
        { title: 'Oldest', since: ({ oldestAt }) => oldestAt },
        {
          title: 'Done',
          number: ({ perMinute }) => perMinute.done,
          cell: ({ perMinute }) => (perMinute.done > 0 ? formatRate(perMinute.done) : <None />),
          spare: 2,
        },
        { title: 'Workers', number: ({ workers }) => workers, cell: ({ workers }) => workers || <None />, spare: 2 },
        {
          title: 'Buried',
          number: ({ buried }) => buried,
          cell: ({ buried }) => (buried > 0 ? <State word={formatJobs(countOf(buried))} tone="bad" /> : <None />),
        },
        { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 1 },
      ]}
      acts={({ name, namespace, pausedAt, buried }) =>
        name !== null &&
        namespace !== null && (
          <>
            {buried > 0 && (
              <Act act="redrive-queue" params={{ namespace, name }} label="Redrive" subject={`queue ${name}`} />
            )}
            <PauseOrResume
              of="queue"
              isPaused={pausedAt !== null}
              params={{ namespace, name }}
              subject={`queue ${name}`}
            />
          </>
        )
      }
      empty={
        <Empty title="No queues yet." code="holdfast.jobs.work([sendEmail], { concurrency: 50 })">
          A queue appears when its first job is enqueued or when a worker serves it.
        </Empty>
      }
    />
  )
}

interface JobListProps {
  readonly live: LiveView<ViewData<'jobs'>>
  readonly isSearched: boolean
  readonly opened: string | undefined
}

function JobList({ live, isSearched, opened }: JobListProps) {
  const { rows = [], hasMore, searchedRows } = live.data ?? {}
  const caption = hasMore
    ? `Showing only the first ${rows.length} jobs, in this order: running, ready, waiting, ended (newest first).`
    : searchedRows
      ? `The search covers only ${formatNumber(searchedRows)} jobs in each state (the newest of the finished jobs). There may be more results.`
      : undefined
  return (
    <TablePanel
      title="Jobs"
      live={live}
      count={hasMore || searchedRows ? undefined : live.data && rows.length}
      description={caption}
      rows={rows}
      keyOf={({ id }) => String(id)}
      opened={opened}
      onOpen={({ id }) => setParams({ id: String(id) }, 'push')}
      columns={[
        { title: 'Job', text: ({ id }) => id },
        { title: 'Kind', name: ({ kind }) => kind, maxLength: 28 },
        {
          title: 'Queue',
          cell: ({ queue, queueKey }) => <Name text={queue ?? `key ${queueKey}`} maxLength={24} />,
          sort: ({ queue }) => queue,
        },
        { title: 'State', cell: (job) => <StateCell job={job} />, sort: ({ state }) => state },
        { title: 'When', cell: (job) => <TimeCell job={job} />, align: 'end' },
        {
          title: 'Attempts',
          cell: attemptText,
          sort: ({ failed, crashes }) => failed + crashes,
          align: 'end',
          spare: 2,
        },
        {
          title: 'Instance',
          cell: (job) => (job.instance ? <OwnerMark owner={job} link={false} /> : <None />),
          spare: 2,
        },
        { title: 'Reason', cell: (job) => <ReasonCell job={job} />, wide: true },
        { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 1 },
      ]}
      empty={
        isSearched ? (
          <Empty title="No job found.">
            {searchedRows
              ? 'The search did not cover all jobs. Narrow the search.'
              : 'By default, finished jobs are deleted after 7 days.'}
          </Empty>
        ) : (
          <Empty title="No jobs yet." code="await holdfast.jobs.enqueue(sendEmail, { to: 'ada@example.com' })">
            Jobs appear here and, by default, stay for 7 days after they end.
          </Empty>
        )
      }
    />
  )
}

function StateCell({ job: { state, paused, waits: what, cancelling } }: { readonly job: JobResult }) {
  if (cancelling !== null) return <State word="stopping" tone="warn" />
  if (paused) return <State word="paused" />
  const reason = state === 'waiting' && waitReasons.find(({ wait }) => wait === what)
  return reason ? <State word={reason.text} tone="wait" /> : <State word={state} />
}

function TimeCell({ job: { state, endedAt, claimedAt, runAt, enqueuedAt, waits: what } }: { readonly job: JobResult }) {
  if (endedAt) return <Ago at={endedAt} />
  if (state === 'running') return <Elapsed at={claimedAt} />
  if (state === 'waiting' && (what === 'time' || what === 'attempt')) return <DueTime at={runAt} />
  return <Elapsed at={enqueuedAt} />
}

function DueTime({ at }: { readonly at: string | null }) {
  const time = useNow()
  return at && Date.parse(at) > time ? <Ago at={at} /> : <>due</>
}

function attemptText({ failed, crashes }: JobResult) {
  if (failed + crashes === 0) return <None />
  return [failed > 0 && `${failed} failed`, crashes > 0 && `${crashes} crashed`].filter(Boolean).join(', ')
}

function ReasonCell({ job: { error, cancelling, waitReason, waits: what, lane } }: { readonly job: JobResult }) {
  const caption = cancelling ?? waitReason ?? error?.message ?? (what === 'lane' ? `lane ${lane}` : undefined)
  if (!caption) return <None />
  return <bdi title={caption}>{caption.length > 48 ? `${caption.slice(0, 47)}…` : caption}</bdi>
}
