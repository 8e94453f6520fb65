import { formatDuration } from '../../base/index.js'
import { type JobState, jobStates, type ObservedJob } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type Colour, type Column, namespaceColumn, pipedColumns, plainColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function jobLs(settings: Settings): Promise<void> {
  const state = settings.oneOf('state', ...jobStates)
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const [namespace, queue, kind] = (['namespace', 'queue', 'kind'] as const).map((option) => settings.name(option))
  const search = { queues: queue ? [queue] : [], kinds: kind ? [kind] : [], ...(state ? { states: [state] } : {}) }
  const { rows, hasMore, searchedRows } = await observe(settings, (observer) =>
    observer.jobs.search(search, { namespace, limit }),
  )
  printRows<'job-ls'>(settings, rows, columns(rows))
  if (rows.length === 0) printMessage('No jobs found.')
  if (hasMore)
    printMessage(
      `Only the first ${limit} jobs are shown. Use --limit to show more, or \`holdfast queue ls\` to count jobs.`,
    )
  if (searchedRows !== null) printMessage(`Only the first ${searchedRows} jobs of each state were searched.`)
}

export const colourOfState: Record<JobState, Colour | undefined> = {
  ready: undefined,
  running: 'green',
  waiting: 'yellow',
  done: 'dim',
  cancelled: 'dim',
  discarded: 'dim',
  buried: 'red',
}

function columns(jobs: readonly ObservedJob[]): Column<ObservedJob>[] {
  return [
    ...plainColumns<ObservedJob>({ ID: 'id', KIND: 'kind' }),
    { title: 'QUEUE', value: ({ queue }) => queue, shown: ({ queue, queueKey }) => queue ?? `key ${queueKey}` },
    namespaceColumn(jobs),
    { title: 'STATE', value: ({ state }) => state, colour: ({ state }) => colourOfState[state] },
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
