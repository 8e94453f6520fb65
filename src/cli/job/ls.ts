import { formatDuration } from '../../base/index.js'
import { type FoundJob, type JobState, jobStates, Observer } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { type Colour, type Column, namespaceOf, printRows, toPrograms } from '../output.js'
import type { Settings } from '../settings.js'

export async function jobLs(settings: Settings): Promise<void> {
  const state = settings.oneOf('state', ...jobStates)
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const [namespace, queue, kind] = (['namespace', 'queue', 'kind'] as const).map((option) => settings.name(option))
  const search = { queues: queue ? [queue] : [], kinds: kind ? [kind] : [], ...(state ? { states: [state] } : {}) }
  const { rows, hasMore, lookedAt } = await withDatabase(settings, (database, schema) =>
    new Observer(database, schema).work.search(search, { namespace, limit }),
  )
  printRows<'job-ls'>(settings, rows, columns(rows))
  if (rows.length === 0) say('There is no such job.')
  if (hasMore) say(`There are more than these ${limit}: --limit shows more, \`holdfast queue ls\` counts.`)
  if (lookedAt !== null) say(`Only the first ${lookedAt} jobs of each state were searched.`)
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

function columns(jobs: readonly FoundJob[]): Column<FoundJob>[] {
  return [
    { title: 'ID', value: ({ id }) => id },
    { title: 'KIND', value: ({ kind }) => kind },
    { title: 'QUEUE', value: ({ queue }) => queue, shown: ({ queue, queueKey }) => queue ?? `key ${queueKey}` },
    namespaceOf(jobs),
    { title: 'STATE', value: ({ state }) => state, colour: ({ state }) => colourOfState[state] },
    {
      title: 'WHEN',
      value: ({ endedAt, claimedAt, runAt, enqueuedAt }) => endedAt ?? claimedAt ?? runAt ?? enqueuedAt,
      shown: when,
    },
    { title: 'FAILED', value: ({ failed }) => failed, shown: ({ failed, crashes }) => tries(failed, crashes) },
    { title: 'CRASHES', value: ({ crashes }) => crashes, shown: toPrograms },
    { title: 'PRIORITY', value: ({ priority }) => priority, shown: toPrograms },
    { title: 'INSTANCE', value: ({ instance }) => instance, shown: toPrograms },
    { title: 'ENQUEUED', value: ({ enqueuedAt }) => enqueuedAt, shown: toPrograms },
    { title: 'WHY', value: why, shown: (job) => why(job) ?? '' },
  ]
}

function when({ state, forMs, dueInMs, endedAt }: FoundJob): string {
  if (state === 'waiting') return dueInMs === 0 ? 'due' : `in ${formatDuration(dueInMs!)}`
  return endedAt === null ? `for ${formatDuration(forMs)}` : `${formatDuration(forMs)} ago`
}

function tries(failed: number, crashes: number): string {
  return [failed > 0 && `${failed}×`, crashes > 0 && `crashed ${crashes}×`].filter(Boolean).join(', ')
}

function why({ paused, cancelling, waitReason, failure }: FoundJob): string | null {
  if (cancelling !== null) return `told to stop: ${cancelling}`
  return paused ? 'its queue is paused' : (waitReason ?? failure)
}
