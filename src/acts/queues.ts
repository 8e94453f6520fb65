import { formatDuration, suggest } from '../base/index.js'
import { maxCounted, type ObservedQueue, type Observer } from '../observe/index.js'
import { act, formatCount, inapplicable, joinSentences } from './act.js'

const needs = { namespace: 'text', name: 'text' } as const

export const queues = {
  'pause-queue': act({
    needs,
    async preview({ observer }, { namespace, name }) {
      const subject = `queue ${name}`
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (queue?.pausedAt) return inapplicable(subject, `"${name}" is already paused.`)
      const { ready = 0, running = 0 } = queue ?? {}
      const text = joinSentences(
        `No job of "${name}" starts on any instance until the queue is resumed: ${formatJobs(ready, 'ready')} and all new jobs wait.`,
        continueText(running),
        'No job is lost.',
        unknown,
      )
      return { subject, text, applies: true, dangerous: false }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const { queue, unknown } = await queueOf(observer, namespace, name)
      await asMember(namespace, ({ jobs }) => jobs.pause(name))
      const text = queue?.pausedAt
        ? `"${name}" was already paused.`
        : `Paused "${name}": none of its jobs is claimed until it is resumed.`
      return {
        done: true,
        text: joinSentences(text, continueText(queue?.running ?? 0), unknown),
        result: { paused: name },
      }
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
        `The jobs of "${name}" start again after a pause of ${formatDuration(pausedForMs!)}: ${formatJobs(ready, 'ready')}.`,
        workers === 0 && 'No worker serves the queue: the jobs wait for one.',
      )
      return { subject, text, applies: true, dangerous: false }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (!queue?.pausedAt) return { done: false, text: unknown ?? notPaused(name), result: { resumed: null } }
      await asMember(namespace, ({ jobs }) => jobs.resume(name))
      return { done: true, text: `Resumed "${name}".`, result: { resumed: name } }
    },
  }),

  'redrive-queue': act({
    needs,
    consent: { doing: 'bringing jobs back', question: 'Let them run again?' },
    async preview({ observer }, { namespace, name }) {
      const subject = `queue ${name}`
      const { queue, unknown } = await queueOf(observer, namespace, name)
      if (!queue || queue.buried === 0) return inapplicable(subject, unknown ?? noneBuried(name))
      const { buried, ready, workers, pausedAt } = queue
      const text = joinSentences(
        `Lets ${formatJobs(buried, 'buried')} of "${name}" run again, the oldest first, with the full number of attempts. Work that an attempt did before it failed may be done again. A job stays buried if another job has its unique key.`,
        pausedAt && 'The queue is paused: the jobs wait until it is resumed.',
        workers === 0 && 'No worker serves the queue: the jobs wait for one.',
      )
      const facts = [
        ['Buried', formatJobCount(buried)],
        ['Ready before them', formatJobCount(ready)],
        ['Workers', String(workers)],
      ] as const
      return { subject, text, applies: true, dangerous: true, facts }
    },
    async run({ observer, asMember, budgetMs = Number.POSITIVE_INFINITY, onProgress }, { namespace, name }) {
      const { queue, unknown } = await queueOf(observer, namespace, name)
      const none = { done: false, result: { redriven: 0 } }
      if (!queue || queue.buried === 0) return { ...none, text: unknown ?? noneBuried(name) }
      const until = performance.now() + budgetMs
      const redriven = await asMember(namespace, async ({ jobs }) => {
        let all = 0
        for await (const some of jobs.redriving(name)) {
          all += some
          onProgress?.(`${all} of ${formatJobs(queue.buried)}`)
          if (performance.now() > until) break
        }
        return all
      })
      if (redriven === 0) {
        return { ...none, text: `No job of "${name}" could be redriven: other jobs have their unique keys.` }
      }
      const left = (await queueOf(observer, namespace, name)).queue?.buried ?? 0
      const rest = left > 0 && `${formatJobs(left)} ${left === 1 ? 'is' : 'are'} still buried: redrive the queue again.`
      const text = joinSentences(`${formatCount(redriven, 'job')} of "${name}" may run again.`, rest)
      return { done: true, text, result: { redriven } }
    },
  }),
}

/** Finds the queue. If no queue has this name, `unknown` explains that and suggests a similar name. */
async function queueOf(
  observer: Observer,
  namespace: string,
  name: string,
): Promise<{ readonly queue?: ObservedQueue; readonly unknown?: string }> {
  const [queue] = (await observer.jobs.queues({ namespace, queue: name })).rows
  if (queue) return { queue }
  const known = (await observer.jobs.queues({ namespace })).rows
  const meant = suggest(
    name,
    known.map((queue) => queue.name ?? ''),
  )
  return { unknown: joinSentences(`The queue "${name}" was never used.`, meant && `Did you mean "${meant}"?`) }
}

function notPaused(name: string): string {
  return `"${name}" is not paused.`
}

function noneBuried(name: string): string {
  return `No job of "${name}" is buried.`
}

function continueText(running: number): string | false {
  return running > 0 && `${formatJobs(running, 'running')} ${running === 1 ? 'continues' : 'continue'} to the end.`
}

/** Formats a number of jobs, such as `9,999` or `10,000+`. Queries count at most 10,000 jobs. */
function formatJobCount(jobs: number): string {
  return jobs > maxCounted ? `${maxCounted.toLocaleString('en')}+` : jobs.toLocaleString('en')
}

function formatJobs(jobs: number, state?: string): string {
  return `${formatJobCount(jobs)} ${state ? `${state} ` : ''}${jobs === 1 ? 'job' : 'jobs'}`
}
