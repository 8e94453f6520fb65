import { didYouMean, formatDuration } from '../base/index.js'
import { maxCounted, type ObservedQueue, type Observer } from '../observe/index.js'
import { act, inapplicable, joinSentences, otherNamespaceText } from './act.js'

const needs = { namespace: 'text', name: 'text' } as const

export const queues = {
  'pause-queue': act({
    needs,
    async preview({ observer }, { namespace, name }) {
      const subject = `queue ${name}`
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (!queue) return inapplicable(subject, unknown)
      if (queue.pausedAt) return inapplicable(subject, `"${name}" is already paused.`)
      const { ready, running } = queue
      const text = joinSentences(
        `No instance will start jobs from "${name}" until the queue is resumed. ${formatJobs(ready, 'ready')} and all new jobs will wait.`,
        continueText(running),
        'No job is lost.',
      )
      return { subject, text, applies: true, dangerous: false }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (!queue) return { done: false, text: unknown }
      await asMember(namespace, ({ jobs }) => jobs.pause(name))
      const text = queue.pausedAt
        ? `"${name}" was already paused.`
        : `Paused "${name}". Workers will claim none of its jobs until the queue is resumed.`
      return { done: true, text: joinSentences(text, continueText(queue.running)), result: { paused: name } }
    },
  }),

  'resume-queue': act({
    needs,
    async preview({ observer }, { namespace, name }) {
      const subject = `queue ${name}`
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (!queue?.pausedAt) return inapplicable(subject, unknown ?? notPaused(name))
      const { ready, workers, pausedForMs } = queue
      const text = joinSentences(
        `Resumes "${name}" after a pause of ${formatDuration(pausedForMs!)}. Workers can claim ${formatJobs(ready, 'ready')}.`,
        workers === 0 && 'No worker serves the queue, so its jobs will wait until a worker starts.',
      )
      return { subject, text, applies: true, dangerous: false }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (!queue) return { done: false, text: unknown }
      if (!queue.pausedAt) return { done: false, text: notPaused(name), result: { resumed: null } }
      await asMember(namespace, ({ jobs }) => jobs.resume(name))
      return { done: true, text: `Resumed "${name}".`, result: { resumed: name } }
    },
  }),
}

type FoundQueue =
  | { readonly queue: ObservedQueue; readonly unknown?: undefined }
  | { readonly queue?: undefined; readonly unknown: string }

/**
 * Finds the queue. If no queue has this name, returns a message in `unknown`, which suggests a similar name if there is
 * one.
 */
async function queueOf(observer: Observer, namespace: string, name: string): Promise<FoundQueue> {
  const [queue] = (await observer.jobs.queues({ namespace, queue: name })).rows
  if (queue) return { queue }
  const elsewhere = (await observer.jobs.queues({ queue: name, countTo: 1 })).rows
  const known = (await observer.jobs.queues({ namespace, countTo: 1 })).rows.map((queue) => queue.name ?? '')
  return {
    unknown: joinSentences(
      `There is no queue "${name}" in the namespace "${namespace}": it has never been used.`,
      otherNamespaceText('queue', elsewhere) ?? didYouMean(name, known),
    ),
  }
}

function notPaused(name: string): string {
  return `"${name}" is not paused.`
}

function continueText(running: number): string | false {
  return running > 0 && `${formatJobs(running, 'running')} will run to completion.`
}

/** Formats a number of jobs, such as `9,999` or `10,000+`. Queries count at most 10,000 jobs. */
function formatJobCount(jobs: number): string {
  return jobs > maxCounted ? `${maxCounted.toLocaleString('en')}+` : jobs.toLocaleString('en')
}

function formatJobs(jobs: number, state?: string): string {
  return `${formatJobCount(jobs)} ${state ? `${state} ` : ''}${jobs === 1 ? 'job' : 'jobs'}`
}
