import { useState } from 'preact/hooks'
import { writeSearchValue } from '../../../src/search/index.js'
import { cut, formatDuration, formatNumber } from '../../format.js'
import { type Line, type Mark, TimeChart } from '../../graphics/time-chart.js'
import { type LiveView, useView } from '../../live.js'
import { Choice } from '../../parts/choice.js'
import { Name } from '../../parts/name.js'
import { Empty, Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { Table, TablePanel } from '../../parts/table.js'
import { Ago, None, When } from '../../parts/time.js'
import { hrefOf } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import { markOf } from '../changes.js'

type Trends = ViewData<'trends'>
type Kind = Trends['kinds'][number]
type Measure = 'waited' | 'took'

/** One of the charts' intervals. */
interface Interval {
  readonly at: number
  readonly done: number
  readonly failedAttempts: number
  readonly failed: number
  readonly waited: Trends['points'][number]['waited']
  readonly took: Trends['points'][number]['took']
  /** Number of minutes that have passed. Less than an interval's length for the last interval. */
  readonly minutes: number
}

const measureTexts = {
  waited: 'Waiting time, from enqueueing to claim',
  took: 'Run time, from claim to completion',
} as const

const noJobs = 'No jobs ended in this period.'

/** Throughput, failures and latency over time, and the totals of each kind. */
export function TrendPanels({ namespace }: { readonly namespace: string | undefined }) {
  const [hours, setHours] = useState(3)
  const [queue, setQueue] = useState('')
  const [kind, setKind] = useState('')
  const [measure, setMeasure] = useState<Measure>('waited')
  const only = { namespace, queue: queue || undefined, kind: kind || undefined, hours }
  const live = useView('trends', only)
  const changes = useView('changes', { namespace, hours, marks: true })
  const intervals = live.data ? intervalsOf(live.data) : []
  const subject = [queue && `queue ${queue}`, kind && `kind ${kind}`].filter(Boolean).join(', ') || 'all queues'
  return (
    <>
      <Panel
        title="Jobs over time"
        live={live}
        description={live.data && accuracyOf(live.data)}
        table={<IntervalTable intervals={intervals} measure={measure} label={`Jobs over time, ${subject}`} />}
        tools={
          <div class="row wraps trend-tools">
            <Choice
              label="Queue"
              value={queue}
              options={optionsOf(
                'all queues',
                queue,
                live.data?.queues.map((one) => one.queue),
              )}
              onChange={setQueue}
            />
            <Choice
              label="Kind"
              value={kind}
              options={optionsOf(
                'all kinds',
                kind,
                live.data?.kinds.map((one) => one.kind),
              )}
              onChange={setKind}
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
        {live.data && (
          <Charts
            data={live.data}
            intervals={intervals}
            measure={measure}
            subject={subject}
            marks={changes.data?.rows.map(markOf) ?? []}
          />
        )}
      </Panel>
      <KindList live={live} hours={hours} />
    </>
  )
}

function accuracyOf({ isEstimated, oneOf }: Trends): string | undefined {
  const texts = [
    isEstimated && 'The counts are estimates, because the history is too long to be read completely.',
    oneOf > 1 && `The times are based on one in ${formatNumber(oneOf)} done jobs.`,
  ]
  return texts.filter(Boolean).join(' ') || undefined
}

/** The chosen name stays in the list, even if it has no jobs in the period. */
function optionsOf(all: string, chosen: string, names: readonly string[] = []) {
  const listed = [...new Set([...(chosen ? [chosen] : []), ...names])].sort()
  return [['', all] as const, ...listed.map((name) => [name, cut(name, 60)] as const)]
}

/** Returns all intervals, including intervals in which no job ended. */
function intervalsOf({ from, until, columnMs, columns, points }: Trends): Interval[] {
  const byColumn = new Map(points.map((point) => [point.column, point]))
  return Array.from({ length: columns }, (_, column) => {
    const at = Date.parse(from) + column * columnMs
    const { done = 0, failedAttempts = 0, failed = 0, waited = null, took = null } = byColumn.get(column) ?? {}
    const minutes = Math.min(columnMs, Date.parse(until) - at) / 60_000
    return { at, done, failedAttempts, failed, waited, took, minutes }
  })
}

interface ChartsProps {
  readonly data: Trends
  readonly intervals: readonly Interval[]
  readonly measure: Measure
  readonly subject: string
  readonly marks: readonly Mark[]
}

function Charts({ data, intervals, measure, subject, marks }: ChartsProps) {
  // The last interval may have just begun, so its rate is not shown until half of the interval has passed.
  const perMinute = (of: 'done' | 'failedAttempts' | 'failed') =>
    intervals.map((interval) => (interval.minutes >= data.columnMs / 120_000 ? interval[of] / interval.minutes : null))
  const percentile = (of: 'p50Ms' | 'p95Ms' | 'p99Ms') => intervals.map((interval) => interval[measure]?.[of] ?? null)
  const half = data.columnMs / 2
  const same = {
    from: Date.parse(data.from),
    until: Date.parse(data.until),
    times: intervals.map(({ at }) => at + half),
    marks,
    empty: noJobs,
  }
  const throughput: Line[] = [{ label: 'jobs done', colour: '--good', dash: [], values: perMinute('done') }]
  const failures: Line[] = [
    { label: 'failed attempts', colour: '--warn', dash: [], values: perMinute('failedAttempts') },
    { label: 'failed jobs', colour: '--bad', dash: [6, 3], values: perMinute('failed') },
  ]
  const latency: Line[] = [
    { label: 'p50', colour: '--busy', dash: [], values: percentile('p50Ms') },
    { label: 'p95', colour: '--warn', dash: [6, 3], values: percentile('p95Ms') },
    { label: 'p99', colour: '--bad', dash: [2, 3], values: percentile('p99Ms') },
  ]
  const seen = marks.filter(({ at }) => Date.parse(at) >= same.from)
  return (
    <>
      <div class="trend-charts">
        <TimeChart {...same} title="Done per minute" label={`Throughput, ${subject}`} lines={throughput} height={170} />
        <TimeChart
          {...same}
          title="Failures per minute"
          label={`Failures, ${subject}`}
          lines={failures}
          height={170}
          empty="No attempt failed in this period."
        />
        <TimeChart
          {...same}
          title={measure === 'waited' ? 'Waiting time' : 'Run time'}
          label={`${measureTexts[measure]}, ${subject}`}
          lines={latency}
          height={170}
          isDuration
        />
      </div>
      {seen.length > 0 && (
        <ul class="trend-marks muted small" aria-label="Marks">
          {seen.slice(0, 5).map(({ at, tone, text }) => (
            <li key={`${at} ${text}`} class="row">
              <State word={text} tone={tone} /> <When at={at} />
            </li>
          ))}
          {seen.length > 5 && <li>and {formatNumber(seen.length - 5)} more</li>}
        </ul>
      )}
    </>
  )
}

interface IntervalTableProps {
  readonly intervals: readonly Interval[]
  readonly measure: Measure
  readonly label: string
}

/** Table of the intervals in which jobs ended or failed, latest first. */
function IntervalTable({ intervals, measure, label }: IntervalTableProps) {
  const percentile = (title: string, of: 'p50Ms' | 'p95Ms' | 'p99Ms') => {
    const value = (interval: Interval) => interval[measure]?.[of] ?? null
    const cell = (interval: Interval) => {
      const ms = value(interval)
      return ms === null ? <None /> : formatDuration(ms)
    }
    return { title, cell, sort: value, align: 'end' as const }
  }
  return (
    <Table
      label={label}
      rows={intervals.filter(({ done, failedAttempts, failed }) => done + failedAttempts + failed > 0).reverse()}
      keyOf={({ at }) => String(at)}
      columns={[
        { title: 'From', cell: ({ at }) => <When at={new Date(at).toISOString()} />, wide: true },
        { title: 'Done', number: ({ done }) => done, cell: ({ done }) => formatNumber(done) },
        { title: 'Failed attempts', number: ({ failedAttempts }) => failedAttempts },
        { title: 'Failed permanently', number: ({ failed }) => failed },
        percentile('p50', 'p50Ms'),
        percentile('p95', 'p95Ms'),
        percentile('p99', 'p99Ms'),
      ]}
      empty={<p class="muted padded-text">{noJobs}</p>}
    />
  )
}

function KindList({ live, hours }: { readonly live: LiveView<Trends>; readonly hours: number }) {
  const count = (value: number) => (value > 0 ? formatNumber(value) : <None />)
  const share = ({ done, failedAttempts }: Kind) =>
    failedAttempts === 0 ? 0 : failedAttempts / (done + failedAttempts)
  return (
    <TablePanel
      title="Kinds"
      live={live}
      description={`Jobs in the last ${hours === 1 ? 'hour' : `${hours} hours`}, the kinds with the most failed jobs first.`}
      rows={live.data?.kinds ?? []}
      keyOf={({ namespace, kind }) => JSON.stringify([namespace, kind])}
      columns={[
        {
          title: 'Kind',
          cell: ({ kind }) => <Name text={kind} maxLength={32} href={hrefOfKind(kind)} />,
          sort: ({ kind }) => kind,
        },
        {
          title: 'Failed',
          number: ({ failed }) => failed,
          cell: ({ kind, failed }) =>
            failed === 0 ? (
              <None />
            ) : (
              <a href={hrefOfKind(kind, 'state:failed')} aria-label={`${failed} failed jobs of kind ${kind}`}>
                <State word={formatNumber(failed)} tone="bad" />
              </a>
            ),
        },
        {
          title: 'Failed attempts',
          number: ({ failedAttempts }) => failedAttempts,
          cell: ({ failedAttempts }) => count(failedAttempts),
        },
        {
          title: 'Failure share',
          number: share,
          cell: (kind) => (share(kind) === 0 ? <None /> : formatShare(share(kind))),
        },
        {
          title: 'Done per minute',
          number: ({ done }) => done,
          cell: ({ done }) => count(Number((done / hours / 60).toPrecision(3))),
          spare: 2,
        },
        {
          title: 'p95 run time',
          number: ({ took }) => took?.p95Ms,
          cell: ({ took }) => (took ? formatDuration(took.p95Ms) : <None />),
          spare: 2,
        },
        {
          title: 'Last error',
          cell: ({ lastError }) =>
            lastError ? (
              <>
                <a href={hrefOf('jobs', { id: String(lastError.job) })}>
                  <bdi>{cut([lastError.name, lastError.message].filter(Boolean).join(': '), 120)}</bdi>
                </a>{' '}
                <span class="muted">
                  <Ago at={lastError.at} />
                </span>
              </>
            ) : (
              <None />
            ),
          wide: true,
          spare: 1,
        },
      ]}
      empty={<Empty title={noJobs}>Each kind of job appears here with its failures and its run time.</Empty>}
    />
  )
}

function hrefOfKind(kind: string, more = ''): string {
  return hrefOf('jobs', { search: `kind:${writeSearchValue(kind)} ${more}`.trim() })
}

/** Formats a share as a percentage. A share that is not 0 is never shown as 0 %. */
function formatShare(share: number): string {
  return share < 0.001 ? '< 0.1 %' : `${formatNumber(Number((share * 100).toFixed(1)))} %`
}
