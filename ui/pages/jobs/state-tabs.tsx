import './state-tabs.css'
import { readJobSearch, type SearchState, stateWordsOf, withState } from '../../../src/search/index.js'
import { countOf, formatJobs, type JobCount, total } from '../../graphics/job-flow.js'
import { hrefOf } from '../../routes.js'
import type { ViewData } from '../../wire.js'

type Queue = ViewData<'queues'>['rows'][number]

interface Tab {
  readonly state: SearchState | ''
  readonly label: string
  /** Number of a queue's jobs. Undefined if the number is not known. */
  readonly jobs?: (queue: Queue) => JobCount
  /** Whether the tab is hidden while it has no jobs. */
  readonly isRare?: boolean
}

/** The database counts the reasons among the first waiting jobs only. */
const waitingCount = ({ waiting }: Queue, jobs: number): JobCount => ({
  jobs: countOf(jobs).jobs,
  isMore: countOf(waiting).isMore,
})

const tabs: readonly Tab[] = [
  { state: '', label: 'all' },
  { state: 'running', label: 'running', jobs: ({ running }) => countOf(running) },
  { state: 'ready', label: 'ready', jobs: ({ ready }) => countOf(ready) },
  { state: 'scheduled', label: 'scheduled', jobs: (queue) => waitingCount(queue, queue.scheduled) },
  { state: 'retrying', label: 'retrying', jobs: (queue) => waitingCount(queue, queue.retrying) },
  { state: 'in-lane', label: 'in a lane', jobs: (queue) => waitingCount(queue, queue.parked), isRare: true },
  { state: 'in-budget', label: 'in a budget', jobs: (queue) => waitingCount(queue, queue.budgeted), isRare: true },
  { state: 'blocked', label: 'blocked', jobs: (queue) => waitingCount(queue, queue.blocked), isRare: true },
  { state: 'failed', label: 'failed', jobs: ({ buried }) => countOf(buried) },
  { state: 'done', label: 'done' },
  { state: 'cancelled', label: 'cancelled', jobs: ({ cancelled }) => countOf(cancelled) },
  { state: 'expired', label: 'expired', jobs: ({ expired }) => countOf(expired), isRare: true },
  { state: 'discarded', label: 'discarded', jobs: ({ discarded }) => countOf(discarded), isRare: true },
]

interface StateTabsProps {
  /** A valid search. */
  readonly search: string
  readonly queues: readonly Queue[]
  /** Whether there are more queues than `queues`. */
  readonly areMore: boolean
}

/** Links that restrict the list to one state, each with the number of jobs in the searched queues. */
export function StateTabs({ search, queues, areMore }: StateTabsProps) {
  const chosen = stateWordsOf(search)
  const wanted = readJobSearch(search).queues
  const counted = queues.filter(({ name }) => wanted.length === 0 || (name !== null && wanted.includes(name)))
  return (
    <nav class="state-tabs" aria-label="States of jobs">
      {tabs.map(({ state, label, jobs, isRare }) => {
        const isChosen = state === '' ? chosen.length === 0 : chosen.length === 1 && chosen[0] === state
        const count = jobs && total(counted.map(jobs), areMore)
        if (isRare && count?.jobs === 0 && !isChosen) return null
        const isBad = state === 'failed' && (count?.jobs ?? 0) > 0
        return (
          <a
            key={state}
            class={`state-tab hovers${isBad ? ' bad' : ''}`}
            href={hrefOf('jobs', { search: withState(search, state) })}
            aria-current={isChosen ? 'true' : undefined}
          >
            {label}
            {count && count.jobs > 0 && <span class="count">{formatJobs(count)}</span>}
          </a>
        )
      })}
    </nav>
  )
}

/** Returns the number of jobs in the states of a search, or undefined if the number is not known. */
export function countInStates(search: string, queues: readonly Queue[], areMore: boolean): JobCount | undefined {
  const { states, waits } = readJobSearch(search)
  if (states.includes('done')) return undefined
  const words = stateWordsOf(search)
  const wanted = tabs.filter(({ state }) => state !== '' && words.includes(state))
  if (waits.length === 0 && states.includes('waiting')) return undefined
  return total(
    wanted.flatMap(({ jobs }) => (jobs ? queues.map(jobs) : [])),
    areMore,
  )
}
