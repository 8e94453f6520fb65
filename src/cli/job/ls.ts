import { formatDuration } from '../../base/index.js'
import { type JobState, jobStates, type ObservedJob, Observer } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { type Colour, type Column, namespaceOf, printRows, toPrograms } from '../output.js'
import type { Settings } from '../settings.js'

export async function jobLs(settings: Settings): Promise<void> {
  const state = settings.oneOf('state', ...jobStates)
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const only = { namespace: settings.name('namespace'), queue: settings.name('queue'), kind: settings.name('kind') }
  const jobs = await withDatabase(settings, (database, schema) =>
    new Observer(database, schema).jobs({ ...only, limit, ...(state ? { states: [state] } : {}) }),
  )
  printRows<'job-ls'>(settings, jobs, columns(jobs))
  if (jobs.length === 0) say('There is no such job.')
  if (jobs.length === limit)
    say(`There may be more than these ${limit}: --limit shows more, \`holdfast queue ls\` counts.`)
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

function when({ state, forMs, dueInMs, endedAt }: ObservedJob): string {
  if (state === 'waiting') return dueInMs === 0 ? 'due' : `in ${formatDuration(dueInMs!)}`
  return endedAt === null ? `for ${formatDuration(forMs)}` : `${formatDuration(forMs)} ago`
}

function tries(failed: number, crashes: number): string {
  return [failed > 0 && `${failed}×`, crashes > 0 && `crashed ${crashes}×`].filter(Boolean).join(', ')
}

function why({ paused, cancelling, waitReason, failure }: ObservedJob): string | null {
  if (cancelling !== null) return `told to stop: ${cancelling}`
  return paused ? 'its queue is paused' : (waitReason ?? failure)
}
