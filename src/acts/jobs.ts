import { formatDuration, hasEnded } from '../base/index.js'
import type { Holdfast } from '../index.js'
import type { JobDetails, LinkedJob } from '../observe/index.js'
import {
  type ActContext,
  act,
  type Consequence,
  formatCount,
  inapplicable,
  joinSentences,
  type Outcome,
} from './act.js'

/** Acts on single jobs. */
export const jobs = {
  'retry-job': act({
    needs: { id: 'id' },
    preview: (context, { id }) => previewOf(context, id, retryConsequence),
    run: (context, { id }) =>
      withJob(context, id, 'retried', async (job, { jobs }) => {
        if (await jobs.retry(id)) return { done: true, text: `Job ${id} may run now.` }
        const now = await jobs.find(id)
        const text =
          now && hasEnded(now.state) && now.state !== 'done'
            ? `Job ${id} was not retried: another job of kind ${job.kind} has its unique key.`
            : `Job ${id} is ${now?.state ?? 'gone'} already.`
        return { done: false, text }
      }),
  }),

  'cancel-job': act({
    needs: { id: 'id' },
    preview: (context, { id }) => previewOf(context, id, cancelConsequence),
    run: (context, { id }) =>
      withJob(context, id, 'cancelled', async (_, { jobs }) => {
        const { actor, reason } = context
        const done = await jobs.cancel(id, actor === undefined ? reason : `Cancelled by ${actor}`)
        const now = await jobs.find(id)
        if (!done) return { done, text: `Job ${id} is ${now?.state ?? 'gone'} already.` }
        if (now?.cancelling === undefined) return { done, text: `Cancelled job ${id}.` }
        return { done, text: `Told job ${id} to stop: the job ends when its handler does.` }
      }),
  }),
}

async function withJob(
  { observer, asMember }: ActContext,
  id: number,
  verb: 'retried' | 'cancelled',
  work: (job: JobDetails, holdfast: Holdfast) => Promise<Outcome>,
): Promise<Outcome> {
  const job = await observer.jobs.find(id)
  const outcome = job
    ? await asMember(job.namespace ?? 'default', (holdfast) => work(job, holdfast))
    : { done: false, text: noSuchJob(id) }
  return { ...outcome, result: { [verb]: outcome.done ? [id] : [] } }
}

async function previewOf(
  { observer, errorLine }: ActContext,
  id: number,
  consequenceOf: (job: JobDetails, now: Date) => Consequence,
): Promise<Consequence> {
  const job = await observer.jobs.find(id)
  if (!job) return inapplicable(`job ${id}`, noSuchJob(id))
  const failure = job.error ?? job.attempts.at(-1)
  const facts: [string, string | false | undefined][] = [
    ['Kind', job.kind],
    ['Queue', job.queue ?? `key ${job.queueKey}`],
    ['State', job.state],
    ['Failed', job.failed > 0 && times(job.failed)],
    ['Crashed', job.crashes > 0 && times(job.crashes)],
    ['Last error', failure && errorLine({ name: failure.name, message: failure.message }, job.kind)],
  ]
  return {
    ...consequenceOf(job, await observer.now()),
    facts: facts.filter((fact): fact is [string, string] => Boolean(fact[1])),
  }
}

function retryConsequence({ id, state, waits, runAt, attempts }: JobDetails, now: Date): Consequence {
  const subject = `job ${id}`
  const idle = {
    running: `Job ${id} runs already: there is nothing to do.`,
    ready: `Job ${id} may run already: there is nothing to do.`,
    done: `Job ${id} is done. It cannot be run again; enqueue another one.`,
  }[state as string]
  if (idle) return inapplicable(subject, idle)
  const mild = { subject, applies: true, dangerous: false }
  if (state === 'waiting') {
    if (waits === 'lane') return { ...mild, text: `Job ${id} still waits for a place in its lane.` }
    if (waits === 'jobs') return { ...mild, text: `Job ${id} still waits for other jobs, but no longer for its time.` }
    const left = formatDuration(Math.max(0, (runAt?.getTime() ?? 0) - now.getTime()))
    return { ...mild, text: `Job ${id} may run now, instead of in ${left}.` }
  }
  const again = attempts.length > 0 && 'Work that an attempt did before it failed may be done again.'
  const text = joinSentences(
    `Lets job ${id}, which is ${state}, run again with the same input and all its attempts.`,
    again,
  )
  return { ...mild, text }
}

function cancelConsequence(job: JobDetails, now: Date): Consequence {
  const { id, state, host, osPid, instance, claimedAt, linked } = job
  const subject = `job ${id}`
  if (hasEnded(state)) return inapplicable(subject, `Job ${id} is ${state} already: there is nothing to cancel.`)
  const after = textOfWaiting(linked.filter((other) => other.state === 'waiting' && other.after.includes(id)))
  const who = host === null ? `instance ${instance}` : `${host} process ${osPid}`
  const since = claimedAt === null ? '' : ` for ${formatDuration(now.getTime() - claimedAt.getTime())}`
  const text =
    state === 'running'
      ? `Tells job ${id} to stop, which ${who} has been running${since}. The job ends when its handler reacts to the signal. What it has done stays done.`
      : `Job ${id} ends here and does not run. A retry brings it back.`
  return { subject, text: joinSentences(text, after), applies: true, dangerous: true }
}

/** What happens to the jobs that wait for this one. */
function textOfWaiting(waiting: readonly LinkedJob[]): string {
  const [cancelled, run, wait] = (['cancel', 'run', 'wait'] as const).map(
    (ifFailed) => waiting.filter((job) => job.ifFailed === ifFailed).length,
  ) as [number, number, number]
  const parts = [
    cancelled > 0 &&
      `${formatCount(cancelled, 'job')} that waited for it ${cancelled === 1 ? 'is' : 'are'} cancelled with it`,
    run > 0 && `${formatCount(run, 'job')} ${run === 1 ? 'runs' : 'run'} anyway`,
    wait > 0 && `${formatCount(wait, 'job')} ${wait === 1 ? 'waits' : 'wait'} until it is retried`,
  ].filter((part) => part !== false)
  return parts.length > 0 ? `${parts.join('; ')}.` : ''
}

export function noSuchJob(id: number): string {
  return `There is no job ${id}: it never was, or ended so long ago that it is forgotten.`
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}
