import './counts.css'
import type { ComponentChildren } from 'preact'
import { formatNumber } from '../../format.js'
import { Sparkline } from '../../graphics/sparkline.js'
import { type LiveView, useView } from '../../live.js'
import { Shape, type Tone } from '../../parts/state.js'
import { hrefOf, type PageId } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import type { WaitGraphData } from './labels.js'

interface CountsProps {
  readonly namespace: string | undefined
  readonly overview: LiveView<ViewData<'overview'>>
  readonly graph: LiveView<WaitGraphData>
}

/** The fleet's most important counts, with their trends in the last hour. Each count links to its page. */
export function Counts({ namespace, overview, graph }: CountsProps) {
  const activity = useView('activity', { namespace }).data
  const jobs = useView('trends', { namespace, hours: 1 }).data
  const counts = overview.data?.counts
  const queues = overview.data?.queues ?? []
  const waits = graph.data
  const contended = waits?.names.filter(({ kind }) => kind !== 'election').length
  // The overview does not list all queues.
  const areMore = (counts?.queues ?? 0) > queues.length
  const isReadyMore = areMore || queues.some(({ readyIs }) => readyIs !== 'counted')
  const sum = (of: 'ready' | 'running', isMore: boolean) =>
    `${formatNumber(queues.reduce((total, queue) => total + queue[of], 0))}${isMore ? '+' : ''} ${of}`
  return (
    <ul class="counts" aria-label="Overview" data-stale={overview.stale || graph.stale || undefined}>
      <Tile
        page="instances"
        title="Instances"
        count={counts?.instances}
        tone={counts?.gone ? 'bad' : undefined}
        trend={activity?.instances}
      >
        {counts?.gone ? `${formatNumber(counts.gone)} lost` : 'all alive'}
      </Tile>
      <Tile page="locks" title="Locks held" count={counts?.held} trend={activity?.held.slice(0, -1)} />
      <Tile page="locks" title="Leases held" count={counts?.leased} />
      <Tile
        page="locks"
        title="Contended names"
        count={contended}
        isMore={waits?.isPartial}
        tone={waits?.calls ? 'warn' : undefined}
        trend={activity?.waiting.slice(0, -1)}
      >
        {waits?.calls ? `${formatNumber(waits.calls)} waiting` : 'nothing is waiting'}
      </Tile>
      <Tile page="schedules" title="Schedules" count={counts?.schedules}>
        {overview.data && `${overview.data.schedules.filter(({ paused }) => paused).length || 'none'} paused`}
      </Tile>
      <Tile
        page="jobs"
        title="Queues"
        count={counts?.queues}
        trend={jobs && columnsOf(jobs, 'done')}
        problems={jobs && columnsOf(jobs, 'failedAttempts')}
      >
        {sum('ready', isReadyMore)}, {sum('running', areMore)}
      </Tile>
    </ul>
  )
}

/** Returns the counts of all complete columns. */
function columnsOf({ columns, points }: ViewData<'trends'>, of: 'done' | 'failedAttempts'): number[] {
  const counts = new Map(points.map((point) => [point.column, point[of]]))
  return Array.from({ length: columns - 1 }, (_, column) => counts.get(column) ?? 0)
}

interface TileProps {
  readonly page: PageId
  readonly title: string
  readonly count: number | undefined
  /** Whether there are more than `count`. */
  readonly isMore?: boolean | undefined
  readonly tone?: Tone | undefined
  /** Values of the last hour. */
  readonly trend?: readonly number[] | undefined
  readonly problems?: readonly number[] | undefined
  readonly children?: ComponentChildren
}

function Tile({ page, title, count, isMore, tone, trend, problems, children }: TileProps) {
  return (
    <li>
      <a class="tile card" href={hrefOf(page)}>
        <span class="tile-title muted small">{title}</span>
        <span class="tile-count">{count === undefined ? '–' : `${formatNumber(count)}${isMore ? '+' : ''}`}</span>
        <span class={`tile-text muted ${tone ?? ''}`}>
          {tone && <Shape tone={tone} />}
          {count === undefined ? '' : children}
        </span>
        {trend && <Sparkline values={trend} problems={problems} />}
      </a>
    </li>
  )
}
