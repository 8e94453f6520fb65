import './counts.css'
import type { ComponentChildren } from 'preact'
import { formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { Shape, type Tone } from '../../parts/state.js'
import { hrefOf, type PageId } from '../../routes.js'
import type { ViewData } from '../../wire.js'

interface CountsProps {
  readonly overview: LiveView<ViewData<'overview'>>
  /** Number of waiting calls. */
  readonly calls: number | undefined
}

/** The fleet's most important counts. Each count links to its page. */
export function Counts({ overview, calls }: CountsProps) {
  const counts = overview.data?.counts
  const queues = overview.data?.queues ?? []
  const sum = (of: 'ready' | 'running') => queues.reduce((total, queue) => total + queue[of], 0)
  return (
    <ul class="counts" aria-label="Overview" data-stale={overview.stale || undefined}>
      <Tile page="instances" title="Instances" count={counts?.instances} tone={counts?.gone ? 'bad' : undefined}>
        {counts?.gone ? `${formatNumber(counts.gone)} gone` : 'all alive'}
      </Tile>
      <Tile page="locks" title="Locks held" count={counts?.held} />
      <Tile page="locks" title="Leases held" count={counts?.leased} />
      <Tile page="locks" title="Contended names" count={counts?.waitedFor} tone={calls ? 'warn' : undefined}>
        {calls ? `${formatNumber(calls)} calls waiting` : 'no calls waiting'}
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
  readonly tone?: Tone | undefined
  readonly children?: ComponentChildren
}

function Tile({ page, title, count, tone, children }: TileProps) {
  return (
    <li>
      <a class="tile card" href={hrefOf(page)}>
        <span class="muted small">{title}</span>
        <span class="tile-count">{count === undefined ? '–' : formatNumber(count)}</span>
        <span class={`tile-text muted ${tone ?? ''}`}>
          {tone && <Shape tone={tone} />}
          {count === undefined ? '' : children}
        </span>
      </a>
    </li>
  )
}
