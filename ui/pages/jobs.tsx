import './jobs/jobs.css'
import { useRef, useState } from 'preact/hooks'
import { useNow } from '../clock.js'
import { formatNumber } from '../format.js'
import { countOf, flowOf, formatJobs, formatRate, JobFlow, waitReasons } from '../graphics/job-flow.js'
import { LatencyChart, LatencyTable, type Measure, pointsOf, queueIdOf } from '../graphics/latency.js'
import { type LiveView, useView } from '../live.js'
import { Act } from '../parts/confirm.js'
import { Empty } from '../parts/empty.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { QueueName } from '../parts/queue-name.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Ago, Elapsed, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { OneJob } from './jobs/one-job.js'
import { JobSearch, parseMistake } from './jobs/search.js'

type Queues = ViewData<'queues'>
type Queue = Queues['rows'][number]
type JobResult = ViewData<'jobs'>['rows'][number]

/** Queues, how jobs go through them, and the jobs themselves. */
export function Jobs() {
  const { namespace, search = '', id } = useParams<'jobs'>()
  // A search that cannot be understood is not asked for: the answer to the last good one stays.
  const good = useRef('')
  if (!parseMistake(search)) good.current = search
  const queues = useView('queues', { namespace })
  const jobs = useView('jobs', { namespace, search: good.current })
  const kinds = [...new Set(jobs.data?.rows.map(({ kind }) => kind))].sort()
  // What was asked for comes first.
  const isSearched = good.current !== ''
  const list = <JobList key="list" live={jobs} isSearched={isSearched} opened={id} />
  return (
    <Page tools={<JobSearch queues={queues.data?.rows.flatMap(({ name }) => name ?? []) ?? []} kinds={kinds} />}>
      {id && <OneJob key={id} id={id} />}
      {isSearched && list}
      <div class="jobs-graphics">
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
    ...waitReasons.map(({ what, text }) =>
      row(`waiting ${text}`, formatJobs(counts[what]), what === 'retrying' ? rates.retried : null),
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
      title="How jobs go"
      live={live}
      description="Rates are those of the last minute. What has ended is kept for a week, or as you said."
      table={
        <Table
          label="Jobs by state"
          rows={rows}
          keyOf={({ state }) => state}
          columns={[
            { title: 'State', cell: ({ state }) => state, wide: true },
            { title: 'Jobs', cell: ({ jobs }) => jobs || <None text="not counted" />, align: 'end' },
            {
              title: 'A minute',
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

function LatencyPanel({ namespace }: { readonly namespace: string | undefined }) {
  const [hours, setHours] = useState(3)
  const [chosen, setChosen] = useState<string>()
  const [measure, setMeasure] = useState<Measure>('waited')
  const live = useView('latencies', { namespace, hours })
  const all = live.data?.queues ?? []
  const queue = all.find((one) => queueIdOf(one) === chosen) ?? all[0]
  const points = live.data && queue ? pointsOf(live.data, queueIdOf(queue), measure) : []
  const words = { waited: 'Waiting, from enqueued to claimed', took: 'Running, from claimed to done' } as const
  const label = queue ? `${words[measure]}, in queue ${queue.queue}` : words[measure]
  return (
    <Panel
      title="Latency"
      live={live}
      description={
        live.data && live.data.oneOf > 1 ? `Of one in ${live.data.oneOf} of the jobs that ended.` : undefined
      }
      table={queue && <LatencyTable points={points} label={label} />}
      tools={
        <div class="row">
          <select
            class="field"
            aria-label="Queue"
            value={queue ? queueIdOf(queue) : ''}
            onChange={({ currentTarget }) => setChosen(currentTarget.value)}
          >
            {all.length === 0 && <option value="">No queue</option>}
            {all.map((one) => (
              <option key={queueIdOf(one)} value={queueIdOf(one)}>
                {one.queue.slice(0, 60)}
                {namespace ? '' : ` (${one.namespace.slice(0, 40)})`}
              </option>
            ))}
          </select>
          <select
            class="field"
            aria-label="What is measured"
            value={measure}
            onChange={({ currentTarget }) => setMeasure(currentTarget.value as Measure)}
          >
            <option value="waited">waited</option>
            <option value="took">ran</option>
          </select>
          <select
            class="field"
            aria-label="How far back"
            value={hours}
            onChange={({ currentTarget }) => setHours(Number(currentTarget.value))}
          >
            {[1, 3, 12, 48].map((one) => (
              <option key={one} value={one}>
                {one} h
              </option>
            ))}
          </select>
        </div>
      }
    >
      {queue ? (
        <LatencyChart points={points} label={label} />
      ) : (
        <Empty title="No job has ended in this time.">
          How long jobs wait and run is drawn here: the median, and the slowest in twenty and in a hundred.
        </Empty>
      )}
    </Panel>
  )
}

function QueueList({ live }: { readonly live: LiveView<Queues> }) {
  const many = (jobs: number) => (jobs > 0 ? formatJobs(countOf(jobs)) : <None />)
  const waiting = ({ scheduled, retrying, parked, blocked }: Queue) => scheduled + retrying + parked + blocked
  return (
    <Panel title="Queues" live={live} count={live.data?.count} padded={false}>
      <div class="queue-rows">
        <Table
          label="Queues"
          rows={live.data?.rows ?? []}
          total={live.data?.count}
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
            { title: 'Ready', cell: ({ ready }) => many(ready), sort: ({ ready }) => ready, align: 'end' },
            { title: 'Running', cell: ({ running }) => many(running), sort: ({ running }) => running, align: 'end' },
            { title: 'Waiting', cell: (queue) => many(waiting(queue)), sort: waiting, align: 'end' },
            {
              title: 'Oldest',
              cell: ({ oldestAt }) => <Elapsed at={oldestAt} />,
              sort: ({ oldestAt }) => (oldestAt ? -Date.parse(oldestAt) : null),
              align: 'end',
            },
            {
              title: 'Done',
              cell: ({ perMinute }) => (perMinute.done > 0 ? formatRate(perMinute.done) : <None />),
              sort: ({ perMinute }) => perMinute.done,
              align: 'end',
              spare: 2,
            },
            {
              title: 'Workers',
              cell: ({ workers }) => workers || <None />,
              sort: ({ workers }) => workers,
              align: 'end',
              spare: 2,
            },
            {
              title: 'Buried',
              cell: ({ buried }) => (buried > 0 ? <State word={formatJobs(countOf(buried))} tone="bad" /> : <None />),
              sort: ({ buried }) => buried,
              align: 'end',
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
                {pausedAt ? (
                  <Act act="resume-queue" params={{ namespace, name }} label="Resume" subject={`queue ${name}`} />
                ) : (
                  <Act act="pause-queue" params={{ namespace, name }} label="Pause" subject={`queue ${name}`} />
                )}
              </>
            )
          }
          empty={
            <Empty title="No queue was ever used." code="holdfast.jobs.work([sendEmail], { concurrency: 50 })">
              A queue is there as soon as a job is enqueued into it, or a worker serves it.
            </Empty>
          }
        />
      </div>
    </Panel>
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
    ? `The first ${rows.length}; there are more. Running ones stand first, then what is ready, what waits, and what has ended, the newest first.`
    : searchedRows
      ? `These were found among the first ${formatNumber(searchedRows)} jobs of each state, of those that have ended among the newest. There may be more.`
      : undefined
  return (
    <Panel
      title="Jobs"
      live={live}
      count={hasMore || searchedRows ? undefined : live.data && rows.length}
      description={caption}
      padded={false}
    >
      <Table
        label="Jobs"
        rows={rows}
        keyOf={({ id }) => String(id)}
        opened={opened}
        onOpen={({ id }) => setParams({ id: String(id) }, 'push')}
        columns={[
          { title: 'Job', cell: ({ id }) => id, sort: ({ id }) => id },
          { title: 'Kind', cell: ({ kind }) => <Name text={kind} maxLength={28} />, sort: ({ kind }) => kind },
          {
            title: 'Queue',
            cell: ({ queue, queueKey }) => <Name text={queue ?? `key ${queueKey}`} maxLength={24} />,
            sort: ({ queue }) => queue,
          },
          { title: 'State', cell: (job) => <StateCell job={job} />, sort: ({ state }) => state },
          { title: 'When', cell: (job) => <TimeCell job={job} />, align: 'end' },
          {
            title: 'Tried',
            cell: attemptText,
            sort: ({ failed, crashes }) => failed + crashes,
            align: 'end',
            spare: 2,
          },
          {
            title: 'On',
            cell: ({ instance, host, osPid }) =>
              instance ? <InstanceMark id={instance} label={host ? `${host}/${osPid}` : undefined} /> : <None />,
            spare: 2,
          },
          { title: 'Why', cell: (job) => <ReasonCell job={job} />, wide: true },
          { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 1 },
        ]}
        empty={
          isSearched ? (
            <Empty title="No job was found.">
              {searchedRows
                ? 'Narrow the search: not all could be looked at.'
                : 'What has ended is kept for a week, or as you said.'}
            </Empty>
          ) : (
            <Empty title="There is no job." code="await holdfast.jobs.enqueue(sendEmail, { to: 'ada@example.com' })">
              What is enqueued stands here, also for a while after it has ended.
            </Empty>
          )
        }
      />
    </Panel>
  )
}

function StateCell({ job: { state, paused, waits: what, cancelling } }: { readonly job: JobResult }) {
  if (cancelling !== null) return <State word="stopping" tone="warn" />
  if (paused) return <State word="paused" />
  const words = { time: 'scheduled', attempt: 'to retry', lane: 'in lane', jobs: 'after others' } as const
  return state === 'waiting' && what ? <State word={words[what]} tone="wait" /> : <State word={state} />
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
  return [failed > 0 && `failed ${failed}×`, crashes > 0 && `crashed ${crashes}×`].filter(Boolean).join(', ')
}

function ReasonCell({ job: { error, cancelling, waitReason, waits: what, lane } }: { readonly job: JobResult }) {
  const caption = cancelling ?? waitReason ?? error?.message ?? (what === 'lane' ? `lane ${lane}` : undefined)
  if (!caption) return <None />
  return <bdi title={caption}>{caption.length > 48 ? `${caption.slice(0, 47)}…` : caption}</bdi>
}
