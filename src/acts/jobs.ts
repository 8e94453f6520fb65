import { formatDuration, hasEnded } from '../base/index.js'
import { defineJob, type Holdfast } from '../index.js'
import type { JobDetails, LinkedJob } from '../observe/index.js'
import { searchStateOf } from '../search/index.js'
import {
  type ActContext,
  act,
  type Consequence,
  formatCount,
  inapplicable,
  joinSentences,
  type Outcome,
} from './act.js'
import { mismatchOf, mismatchText, timeText } from './enqueue.js'

export const jobs = {
  'retry-job': act({
    needs: { id: 'id' },
    preview: (context, { id }) => previewOf(context, id, retryConsequence),
    run: (context, { id }) =>
      withJob(context, id, 'retried', async (job, { jobs }) => {
        if (await jobs.retry(id)) return { done: true, text: `Job ${id} can run now.` }
        const now = await jobs.find(id)
        const text =
          now && hasEnded(now.state) && now.state !== 'done'
            ? `Job ${id} was not retried: another job of kind ${job.kind} has the same unique key.`
            : `Job ${id} is already ${now ? searchStateOf({ state: now.state }) : 'gone'}.`
        return { done: false, text }
      }),
  }),

  'update-job': act({
    needs: { id: 'id' },
    params: { input: 'json', runAt: 'time', startBy: 'time', priority: { number: [-5, 5] } },
    preview: (context, params) => previewOf(context, params.id, (job) => updateConsequence(context, job, params)),
    async run(context, { id, input, ...times }) {
      const job = await context.observer.jobs.find(id)
      const mismatch = job && (await mismatchOfJob(context, job, input))
      if (mismatch) return { done: false, text: mismatch, result: { updated: null } }
      const isUpdated =
        job !== null &&
        (await context.asMember(job.namespace ?? 'default', ({ jobs }) =>
          input === undefined
            ? jobs.update(id, times)
            : jobs.update(id, { ...times, definition: defineJob<unknown>(job.kind), input: JSON.parse(input) }),
        ))
      if (isUpdated) return { done: true, text: `Changed job ${id}.`, result: { updated: id } }
      const now = await context.observer.jobs.find(id)
      const text = now
        ? `Job ${id} was not changed: it is ${searchStateOf({ state: now.state })}, or has already begun.`
        : noSuchJob(id)
      return { done: false, text, result: { updated: null } }
    },
  }),

  'cancel-job': act({
    needs: { id: 'id' },
    preview: (context, { id }) => previewOf(context, id, cancelConsequence),
    run: (context, { id }) =>
      withJob(context, id, 'cancelled', async (_, { jobs }) => {
        const { actor, reason } = context
        const done = await jobs.cancel(id, actor === undefined ? reason : `Cancelled by ${actor}`)
        const now = await jobs.find(id)
        if (!done) return { done, text: `Job ${id} is already ${now ? searchStateOf({ state: now.state }) : 'gone'}.` }
        if (now?.cancelling === undefined) return { done, text: `Cancelled job ${id}.` }
        return { done, text: `Asked job ${id} to stop. The job ends when its handler finishes.` }
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
  consequenceOf: (job: JobDetails, now: Date) => Consequence | Promise<Consequence>,
): Promise<Consequence> {
  const job = await observer.jobs.find(id)
  if (!job) return inapplicable(`job ${id}`, noSuchJob(id))
  const failure = job.error ?? job.attempts.at(-1)
  const facts: [string, string | false | undefined][] = [
    ['Kind', job.kind],
    ['Queue', job.queue ?? `key ${job.queueKey}`],
    ['State', searchStateOf({ state: job.state })],
    ['Failed', job.failed > 0 && times(job.failed)],
    ['Crashed', job.crashes > 0 && times(job.crashes)],
    ['Last error', failure && errorLine({ name: failure.name, message: failure.message }, job.kind)],
  ]
  return {
    ...(await consequenceOf(job, await observer.now())),
    facts: facts.filter((fact): fact is [string, string] => Boolean(fact[1])),
  }
}

function retryConsequence({ id, state, waits, runAt, attempts }: JobDetails, now: Date): Consequence {
  const subject = `job ${id}`
  const idle = {
    running: `Job ${id} is already running: there is nothing to do.`,
    ready: `Job ${id} is already ready: there is nothing to do.`,
    done: `Job ${id} is done and cannot run again. Enqueue another job instead.`,
  }[state as string]
  if (idle) return inapplicable(subject, idle)
  const mild = { subject, applies: true, dangerous: false }
  if (state === 'waiting') {
    if (waits === 'lane') return { ...mild, text: `Job ${id} will still wait for its lane.` }
    if (waits === 'budget') return { ...mild, text: `Job ${id} will still wait for its budgets.` }
    if (waits === 'jobs')
      return { ...mild, text: `Job ${id} will still wait for other jobs, but no longer for its scheduled time.` }
    const left = formatDuration(Math.max(0, (runAt?.getTime() ?? 0) - now.getTime()))
    return { ...mild, text: `Job ${id} can run now instead of in ${left}.` }
  }
  const text = joinSentences(
    `Job ${id} (${searchStateOf({ state })}) will run again with the same input and a fresh set of attempts.`,
    attempts.length > 0 && 'Work that a failed attempt has already done may be done again.',
  )
  return { ...mild, text }
}

interface Changes {
  readonly input?: string | undefined
  readonly runAt?: Date | undefined
  readonly startBy?: Date | undefined
  readonly priority?: number | undefined
}

async function updateConsequence(
  context: ActContext,
  job: JobDetails,
  { input, runAt, startBy, priority }: Changes,
): Promise<Consequence> {
  const { id, state } = job
  const subject = `job ${id}`
  if (state !== 'waiting' && state !== 'ready') {
    return inapplicable(
      subject,
      `Job ${id} is ${searchStateOf({ state })}. Only a job that is waiting or ready can be changed.`,
    )
  }
  const mismatch = await mismatchOfJob(context, job, input)
  if (mismatch) return inapplicable(subject, mismatch)
  const text = joinSentences(
    input !== undefined && `Job ${id} will run with a new input. Its failed attempts and recorded steps are deleted.`,
    runAt && `Job ${id} may start at ${timeText(runAt)}.`,
    startBy && `Job ${id} expires at ${timeText(startBy)} if no worker has claimed it by then.`,
    priority !== undefined && `Job ${id} gets the priority ${priority} instead of ${job.priority}.`,
  )
  return { subject, text: text || `Job ${id} does not change.`, applies: text !== '', dangerous: input !== undefined }
}

async function mismatchOfJob({ observer }: ActContext, job: JobDetails, input: string | undefined) {
  const { namespace, queue, kind } = job
  if (input === undefined || namespace === null || queue === null) return undefined
  const mismatch = mismatchOf(await observer.jobKinds.find({ namespace, queue, kind }), input)
  return mismatch === undefined ? undefined : mismatchText(kind, mismatch)
}

function cancelConsequence(job: JobDetails, now: Date): Consequence {
  const { id, state, instance, instanceName, claimedAt, linked } = job
  const subject = `job ${id}`
  if (hasEnded(state))
    return inapplicable(subject, `Job ${id} is already ${searchStateOf({ state })}: there is nothing to cancel.`)
  const after = textOfWaiting(linked.filter((other) => other.state === 'waiting' && other.after.includes(id)))
  const who = instanceName ?? `instance ${instance}`
  const since = claimedAt === null ? '' : ` for ${formatDuration(now.getTime() - claimedAt.getTime())}`
  const text =
    state === 'running'
      ? `Asks job ${id} to stop. The job has been running on ${who}${since}, and ends when its handler reacts to the signal. Effects so far are not undone.`
      : `Job ${id} will be cancelled and will not run. To run the job later, retry it.`
  return { subject, text: joinSentences(text, after), applies: true, dangerous: true }
}

/** Describes what happens to the jobs that wait for the cancelled job. */
function textOfWaiting(waiting: readonly LinkedJob[]): string {
  const [cancelled, run, wait] = (['cancel', 'run', 'wait'] as const).map(
    (ifFailed) => waiting.filter((job) => job.ifFailed === ifFailed).length,
  ) as [number, number, number]
  const parts = [
    cancelled > 0 &&
      `${formatCount(cancelled, 'job')} that ${cancelled === 1 ? 'waits' : 'wait'} for this job will also be cancelled`,
    run > 0 && `${formatCount(run, 'job')} that ${run === 1 ? 'waits' : 'wait'} for this job will run anyway`,
    wait > 0 && `${formatCount(wait, 'job')} will wait until this job is retried`,
  ].filter((part) => part !== false)
  return parts.length > 0 ? `${parts.join('; ')}.` : ''
}

export function noSuchJob(id: number): string {
  return `There is no job ${id}: it never existed, or it ended so long ago that it was deleted.`
}

/** Formats a number of times, such as `once` or `2 times`. */
export function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}
