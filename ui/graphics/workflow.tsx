import './workflow.css'
import { shorten } from '../format.js'
import { Shape, toneOf, wordOf } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { None } from '../parts/time.js'
import { hrefOf } from '../routes.js'
import type { ViewData } from '../wire.js'

type LinkedJob = NonNullable<ViewData<'job'>['job']>['linked'][number]

const [nodeWidth, nodeHeight, gapX, gapY] = [148, 40, 46, 10]

type PlacedJob = LinkedJob & Readonly<Record<'x' | 'y', number>>

/** Places each job to the right of the jobs on which it depends. */
function layout(jobs: readonly LinkedJob[]): Map<number, PlacedJob> {
  const byId = new Map(jobs.map((job) => [job.id, job]))
  const depths = new Map<number, number>()
  const depthOf = (job: LinkedJob, seen: readonly number[]): number => {
    const known = depths.get(job.id)
    if (known !== undefined) return known
    // Holdfast never creates a cycle, but manual changes in the database can.
    const before = job.after.flatMap((id) => (seen.includes(id) ? [] : (byId.get(id) ?? [])))
    const depth = Math.max(-1, ...before.map((other) => depthOf(other, [...seen, job.id]))) + 1
    depths.set(job.id, depth)
    return depth
  }
  const columns: number[] = []
  const placed = new Map<number, PlacedJob>()
  for (const job of jobs) {
    const depth = depthOf(job, [])
    const row = columns[depth] ?? 0
    columns[depth] = row + 1
    placed.set(job.id, { ...job, x: depth * (nodeWidth + gapX) + 2, y: row * (nodeHeight + gapY) + 2 })
  }
  return placed
}

/** Graph of the dependencies between jobs, from left to right. */
export function Workflow({ jobs, id }: { readonly jobs: readonly LinkedJob[]; readonly id: number }) {
  const placed = layout(jobs)
  const all = [...placed.values()]
  const width = Math.max(...all.map(({ x }) => x)) + nodeWidth + 2
  const height = Math.max(...all.map(({ y }) => y)) + nodeHeight + 2
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll this area
    <div class="workflow" tabIndex={0}>
      {/* biome-ignore lint/a11y/useSemanticElements: a group of links, drawn */}
      <svg width={width} height={height} role="group" aria-label="Job dependencies. Press t to show a table.">
        {all.flatMap((job) =>
          job.after.map((needed) => {
            const from = placed.get(needed)
            if (!from) return null
            const [x1, y1, x2, y2] = [from.x + nodeWidth, from.y + nodeHeight / 2, job.x, job.y + nodeHeight / 2]
            return (
              <path
                key={`${needed} ${job.id}`}
                class="graph-line"
                d={`M${x1} ${y1}C${x1 + 24} ${y1} ${x2 - 24} ${y2} ${x2} ${y2}`}
              />
            )
          }),
        )}
        {all.map((job) => (
          <a
            key={job.id}
            href={hrefOf('jobs', { id: String(job.id) })}
            aria-current={job.id === id ? 'true' : undefined}
            class={`workflow-job ${toneOf(job.state)}`}
          >
            <g transform={`translate(${job.x} ${job.y})`}>
              <rect width={nodeWidth} height={nodeHeight} rx="5" />
              <text x="10" y="17">
                {shorten(job.kind, 20)}
              </text>
              <svg x="10" y="24" width="10" height="10" overflow="visible" aria-hidden="true">
                <Shape tone={toneOf(job.state)} />
              </svg>
              <text x="25" y="33" fill="var(--muted)" font-size="11.5">
                {wordOf(job.state)} · {job.id}
              </text>
            </g>
          </a>
        ))}
      </svg>
    </div>
  )
}

export function WorkflowTable({ jobs, id }: { readonly jobs: readonly LinkedJob[]; readonly id: number }) {
  return (
    <Table
      label="Workflow"
      rows={jobs}
      keyOf={(job) => String(job.id)}
      opened={String(id)}
      columns={[
        {
          title: 'Job',
          cell: (job) => <a href={hrefOf('jobs', { id: String(job.id) })}>{job.id}</a>,
          sort: (job) => job.id,
        },
        { title: 'Kind', cell: ({ kind }) => <bdi>{shorten(kind, 40)}</bdi>, wide: true },
        { title: 'State', state: ({ state }) => state },
        { title: 'After', cell: ({ after }) => (after.length > 0 ? after.join(', ') : <None />) },
        {
          title: 'If one fails',
          cell: ({ after, ifFailed }) => (after.length > 0 ? stateText[ifFailed] : <None />),
          spare: 2,
        },
      ]}
      empty={null}
    />
  )
}

const stateText = { cancel: 'is cancelled', run: 'runs anyway', wait: 'waits for a retry' } as const
