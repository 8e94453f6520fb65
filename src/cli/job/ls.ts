import { formatDuration } from '../../base/index.js'
import type { JobsObserver, ObservedJob } from '../../observe/index.js'
import { type JobSearch, type SearchState, searchStateOf } from '../../search/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import {
  type Colour,
  type Column,
  countText,
  namespaceColumn,
  pipedColumns,
  plainColumns,
  printRows,
} from '../output.js'
import type { Settings } from '../settings.js'
import { readSearchOptions } from './filter.js'

/** Time after which the command stops searching. */
const searchMs = 10_000

export async function jobLs(settings: Settings): Promise<void> {
  const search = readSearchOptions(settings)
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const namespace = settings.name('namespace')
  const { rows, searched, isLimited, isComplete } = await observe(settings, ({ jobs }) =>
    findAll(jobs, search, namespace, limit),
  )
  printRows<'job-ls'>(settings, rows, columns(rows))
  if (rows.length === 0) printMessage('No jobs found.')
  if (isLimited) {
    printMessage(
      `Only the first ${limit} jobs are shown. Use --limit to show more, or \`holdfast queue ls\` to count jobs.`,
    )
  } else if (!isComplete) {
    printMessage(`Only ${countText(searched, 'job')} were searched. Narrow the search with --queue or --state.`)
  }
}

/** Searches until `limit` jobs were found, the search is complete, or 10 s have passed. */
async function findAll(jobs: JobsObserver, search: JobSearch, namespace: string | undefined, limit: number) {
  const stopAt = performance.now() + searchMs
  const rows: ObservedJob[] = []
  let [after, searched] = [undefined as string | undefined, 0]
  do {
    const page = await jobs.search(search, { namespace, limit: limit - rows.length, after })
    rows.push(...page.rows)
    searched += page.searchedRows ?? 0
    after = page.next ?? undefined
  } while (after !== undefined && rows.length < limit && performance.now() < stopAt)
  return { rows, searched, isLimited: after !== undefined && rows.length === limit, isComplete: after === undefined }
}

const colourOfState: Partial<Record<SearchState, Colour>> = {
  running: 'green',
  scheduled: 'yellow',
  retrying: 'yellow',
  'in-lane': 'yellow',
  'in-budget': 'yellow',
  blocked: 'yellow',
  done: 'dim',
  cancelled: 'dim',
  expired: 'yellow',
  discarded: 'dim',
  failed: 'red',
}

function columns(jobs: readonly ObservedJob[]): Column<ObservedJob>[] {
  return [
    ...plainColumns<ObservedJob>({ ID: 'id', KIND: 'kind' }),
    { title: 'QUEUE', value: ({ queue }) => queue, shown: ({ queue, queueKey }) => queue ?? `key ${queueKey}` },
    namespaceColumn(jobs),
    { title: 'STATE', value: searchStateOf, colour: (job) => colourOfState[searchStateOf(job)] },
    {
      title: 'WHEN',
      value: ({ endedAt, claimedAt, runAt, enqueuedAt }) => endedAt ?? claimedAt ?? runAt ?? enqueuedAt,
      shown: timeText,
    },
    { title: 'FAILED', value: ({ failed }) => failed, shown: ({ failed, crashes }) => failureText(failed, crashes) },
    ...pipedColumns<ObservedJob>({ CRASHES: 'crashes', PRIORITY: 'priority', INSTANCE: 'instance' }),
    ...pipedColumns<ObservedJob>({ ENQUEUED: 'enqueuedAt' }),
    { title: 'WHY', value: reasonText, shown: (job) => reasonText(job) ?? '' },
  ]
}

function timeText({ state, forMs, dueInMs, endedAt }: ObservedJob): string {
  if (state === 'waiting') return dueInMs === 0 ? 'due' : `in ${formatDuration(dueInMs!)}`
  return endedAt === null ? `for ${formatDuration(forMs)}` : `${formatDuration(forMs)} ago`
}

function failureText(failed: number, crashes: number): string {
  return [failed > 0 && `${failed}×`, crashes > 0 && `crashed ${crashes}×`].filter(Boolean).join(', ')
}

function reasonText({ paused, cancelling, waitReason, failure }: ObservedJob): string | null {
  if (cancelling !== null) return `cancel requested: ${cancelling}`
  return paused ? 'its queue is paused' : (waitReason ?? failure)
}
