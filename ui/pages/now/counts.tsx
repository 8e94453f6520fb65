import './counts.css'
import type { ComponentChildren } from 'preact'
import { formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { Shape, type Tone } from '../../parts/state.js'
import { hrefOf, type PageId } from '../../routes.js'
import type { ViewData } from '../../wire.js'
import type { WaitGraphData } from './labels.js'

interface CountsProps {
  readonly overview: LiveView<ViewData<'overview'>>
  readonly graph: LiveView<WaitGraphData>
}

/** The fleet's most important counts. Each count links to its page. */
export function Counts({ overview, graph }: CountsProps) {
  const counts = overview.data?.counts
  const queues = overview.data?.queues ?? []
  const waits = graph.data
  const contended = waits?.names.filter(({ kind }) => kind !== 'election').length
  const sum = (of: 'ready' | 'running') => queues.reduce((total, queue) => total + queue[of], 0)
  return (
    <ul class="counts" aria-label="Overview" data-stale={overview.stale || graph.stale || undefined}>
      <Tile page="instances" title="Instances" count={counts?.instances} tone={counts?.gone ? 'bad' : undefined}>
        {counts?.gone ? `${formatNumber(counts.gone)} lost` : 'all alive'}
      </Tile>
      <Tile page="locks" title="Locks held" count={counts?.held} />
      <Tile page="locks" title="Leases held" count={counts?.leased} />
      <Tile
        page="locks"
        title="Contended names"
        count={contended}
        isMore={waits?.isPartial}
        tone={waits?.calls ? 'warn' : undefined}
      >
        {waits?.calls ? `${formatNumber(waits.calls)} waiting` : 'nothing is waiting'}
      </Tile>
      <Tile page="schedules" title="Schedules" count={counts?.schedules}>
        {overview.data && `${overview.data.schedules.filter(({ paused }) => paused).length || 'none'} paused`}
      </Tile>
      <Tile page="jobs" title="Queues" count={counts?.queues}>
        {formatNumber(sum('ready'))} ready, {formatNumber(sum('running'))} running
      </Tile>
    </ul>
  )
}

interface TileProps {
  readonly page: PageId
  readonly title: string
  readonly count: number | undefined
  /** Whether there are more than `count`. */
  readonly isMore?: boolean | undefined
  readonly tone?: Tone | undefined
  readonly children?: ComponentChildren
}

function Tile({ page, title, count, isMore, tone, children }: TileProps) {
  return (
    <li>
      <a class="tile card" href={hrefOf(page)}>
        <span class="tile-title muted small">{title}</span>
        <span class="tile-count">{count === undefined ? '–' : `${formatNumber(count)}${isMore ? '+' : ''}`}</span>
        <span class={`tile-text muted ${tone ?? ''}`}>
          {tone && <Shape tone={tone} />}
          {count === undefined ? '' : children}
        </span>
      </a>
    </li>
  )
}
