import './jobs/jobs.css'
import { useRef, useState } from 'preact/hooks'
import { readJobSearch, searchStateOf, writeSearchTerm } from '../../src/search/index.js'
import { useNow } from '../clock.js'
import { formatNumber } from '../format.js'
import { countOf, flowOf, formatJobs, formatRate, JobFlow, waitReasons } from '../graphics/job-flow.js'
import { type LiveView, useView } from '../live.js'
import { Act, PauseOrResume } from '../parts/confirm.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { Name, QueueName } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Empty, Panel } from '../parts/panel.js'
import { State, wordOf } from '../parts/state.js'
import { Pager, Table, TablePanel } from '../parts/table.js'
import { Ago, Elapsed, None } from '../parts/time.js'
import { hrefOf, setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { Enqueue } from './jobs/enqueue.js'
import { OneJob } from './jobs/one-job.js'
import { JobSearch, parseMistake } from './jobs/search.js'
import { countInStates, StateTabs } from './jobs/state-tabs.js'
import { TrendPanels } from './jobs/trend-panels.js'

type Queues = ViewData<'queues'>
type Queue = Queues['rows'][number]
type JobResult = ViewData<'jobs'>['rows'][number]

export function Jobs() {
  const { namespace, search = '', id, after } = useParams<'jobs'>()
  // While the search text is invalid, the page keeps the last valid search's results.
  const good = useRef('')
  const isMistaken = parseMistake(search) !== undefined
  if (!isMistaken) good.current = search
  const queues = useView('queues', { namespace })
  const found = useView('jobs', { namespace, search: good.current, after })
  const jobs = isMistaken ? { ...found, stale: true } : found
  const kinds = [...new Set(jobs.data?.rows.map(({ kind }) => kind))].sort()
  const rows = queues.data?.rows ?? []
  const areMore = areMoreQueues(queues.data)
  return (
    <Page
      tools={
        <>
          <JobSearch queues={rows.flatMap(({ name }) => name ?? [])} kinds={kinds} />
          <Enqueue
            label="Enqueue a job"
            given={{ namespace: namespace ?? 'default', queue: '', kind: '', input: '{}' }}
          />
        </>
      }
    >
      {id && <OneJob key={id} id={id} />}
      <JobList
        key={`${namespace} ${good.current} ${after}`}
        live={jobs}
        queues={rows}
        areMore={areMore}
        search={good.current}
        namespace={namespace}
        after={after}
        opened={id}
      />
      <QueueList live={queues} />
      <TrendPanels namespace={namespace} />
      <FlowPanel live={queues} />
    </Page>
  )
}

/** Returns true if there are queues that the list does not contain. */
function areMoreQueues(queues: Queues | undefined): boolean {
  return queues !== undefined && queues.count > queues.rows.length
}

/** Drawing of the job states. Collapsed by default, because it explains the states to new users. */
function FlowPanel({ live }: { readonly live: LiveView<Queues> }) {
  const [isOpen, setOpen] = useState(false)
  const flow = flowOf(live.data?.rows ?? [], areMoreQueues(live.data))
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
    ...(['buried', 'cancelled', 'expired', 'discarded'] as const).map((state) =>
      row(wordOf(state), formatJobs(counts[state]), rates[state]),
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
      tools={
        <button type="button" class="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide' : 'Show'}
        </button>
      }
    >
      {isOpen && <JobFlow flow={flow} />}
    </Panel>
  )
}

function QueueList({ live }: { readonly live: LiveView<Queues> }) {
  const many = (jobs: number) => (jobs > 0 ? formatJobs(countOf(jobs)) : <None />)
  const waiting = ({ scheduled, retrying, parked, budgeted, blocked }: Queue) =>
    scheduled + retrying + parked + budgeted + blocked
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
          title: 'Failed',
          number: ({ buried }) => buried,
          cell: ({ name, buried }) =>
            buried === 0 ? (
              <None />
            ) : name === null ? (
              <State word={formatJobs(countOf(buried))} tone="bad" />
            ) : (
              <a href={hrefOf('jobs', { search: failedIn(name) })}>
                <State word={formatJobs(countOf(buried))} tone="bad" />
              </a>
            ),
        },
        { title: 'Namespace', cell: ({ namespace }) => <bdi>{namespace ?? <None />}</bdi>, spare: 1 },
      ]}
      acts={({ name, namespace, pausedAt, buried }) =>
        name !== null &&
        namespace !== null && (
          <>
            {buried > 0 && (
              <Act
                act="retry-jobs"
                params={{ search: failedIn(name), namespace }}
                label="Retry failed"
                subject={`queue ${name}`}
              />
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

const failedIn = (queue: string) => `state:failed ${writeSearchTerm('queue', queue)}`

interface JobListProps {
  readonly live: LiveView<ViewData<'jobs'>>
  readonly queues: Queues['rows']
  /** Whether there are more queues than `queues`. */
  readonly areMore: boolean
  /** A valid search. */
  readonly search: string
  readonly namespace: string | undefined
  /** Position in the search after which the page starts. */
  readonly after: string | undefined
  readonly opened: string | undefined
}

function JobList({ live, queues, areMore, search, namespace, after, opened }: JobListProps) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const { rows = [], next = null, searchedRows } = live.data ?? {}
  // A selected job can leave the page. The actions then still apply to this job.
  const lastStates = useRef(new Map<string, string>())
  for (const { id, state } of rows) if (selected.has(String(id))) lastStates.current.set(String(id), state)
  const isSearched = search !== ''
  const isComplete = next === null && !after
  return (
    <TablePanel
      title="Jobs"
      live={live}
      count={isComplete ? live.data && rows.length : undefined}
      description={
        searchedRows ? <Searched rows={searchedRows} search={search} queues={queues} areMore={areMore} /> : undefined
      }
      tools={
        <BulkActs
          rows={rows}
          selected={new Map([...selected].map((id) => [id, lastStates.current.get(id) ?? '']))}
          onClear={() => setSelected(new Set())}
          search={search}
          namespace={namespace}
        />
      }
      head={<StateTabs search={search} queues={queues} areMore={areMore} />}
      rows={rows}
      selection={{ keys: selected, onChange: setSelected }}
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
        isSearched || after ? (
          <Empty title={after ? 'No more jobs.' : 'No job found.'}>
            {searchedRows
              ? 'The search did not cover all jobs. The next page continues the search.'
              : 'By default, finished jobs are deleted after 7 days.'}
          </Empty>
        ) : (
          <Empty title="No jobs yet." code="await holdfast.jobs.enqueue(sendEmail, { to: 'ada@example.com' })">
            Jobs appear here and, by default, stay for 7 days after they end.
          </Empty>
        )
      }
    >
      <Pager next={next} after={after} />
    </TablePanel>
  )
}

interface SearchedProps {
  readonly rows: number
  readonly search: string
  readonly queues: Queues['rows']
  /** Whether there are more queues than `queues`. */
  readonly areMore: boolean
}

/** Shows the number of jobs that this page of the search has scanned. */
function Searched({ rows, search, queues, areMore }: SearchedProps) {
  const wanted = readJobSearch(search).queues
  const all = countInStates(
    search,
    queues.filter(({ name }) => wanted.length === 0 || (name !== null && wanted.includes(name))),
    areMore,
  )
  const ofAll = all && all.jobs > rows ? ` of ${formatJobs(all)}` : ''
  return (
    <>
      This page covers {formatNumber(rows)}
      {ofAll} jobs, because this search has no index. The next page continues the search. Narrow the search by queue or
      state to cover more.
    </>
  )
}

const manyActs = [
  { act: 'retry-jobs', label: 'Retry', states: ['waiting', 'buried', 'cancelled', 'expired', 'discarded'] },
  { act: 'cancel-jobs', label: 'Cancel', states: ['running', 'ready', 'waiting'] },
  { act: 'discard-jobs', label: 'Discard', states: ['buried'] },
] as const

interface BulkActsProps {
  readonly rows: readonly JobResult[]
  /** Last known state of each selected job, by ID. Includes jobs that are no longer on the page. */
  readonly selected: ReadonlyMap<string, string>
  readonly onClear: () => void
  readonly search: string
  readonly namespace: string | undefined
}

/** Buttons that act on the selected jobs or, if none is selected, on all jobs that the search finds. */
function BulkActs({ rows, selected, onClear, search, namespace }: BulkActsProps) {
  const isSelection = selected.size > 0
  // Without a selection and a search, the buttons would act on all jobs.
  if (!isSelection && search === '') return null
  const text = isSelection ? `id:${[...selected.keys()].join(',')}` : search
  const which = isSelection ? 'selected' : 'all'
  const states = new Set<string>(isSelection ? selected.values() : rows.map(({ state }) => state))
  const shown = new Set(rows.map(({ id }) => String(id)))
  return (
    <div class="row">
      {manyActs
        .filter((one) => one.states.some((state) => states.has(state)))
        .map(({ act, label }) => (
          <Act
            key={`${act} ${text}`}
            act={act}
            params={{ search: text, namespace }}
            label={`${label} ${which}`}
            subject="jobs found"
          />
        ))}
      {[...selected.keys()].some((id) => !shown.has(id)) && (
        <button type="button" class="button bare" onClick={onClear}>
          Clear selection of {formatNumber(selected.size)}
        </button>
      )}
    </div>
  )
}

function StateCell({ job }: { readonly job: JobResult }) {
  if (job.cancelling !== null) return <State word="stopping" tone="warn" />
  if (job.paused) return <State word="paused" />
  const word = searchStateOf(job)
  const reason = waitReasons.find((one) => one.word === word)
  return reason ? <State word={reason.text} tone="wait" /> : <State word={word} />
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

function ReasonCell({ job: { error, cancelling, waitReason } }: { readonly job: JobResult }) {
  const caption = cancelling ?? waitReason ?? error?.message
  if (!caption) return <None />
  return <bdi title={caption}>{caption.length > 48 ? `${caption.slice(0, 47)}…` : caption}</bdi>
}
