import { formatDuration } from '../../base/index.js'
import type { Holdfast } from '../../index.js'
import { type BusyQueue, type JobDetails, mostCounted, type TiedJob } from '../../observe/index.js'
import { act, type Doing, type Outcome } from '../act.js'
import type { Consequence } from '../consequence.js'
import { errorSaid } from '../views/jobs.js'

/** A redrive goes in pieces; whoever asked for more than fits into so long may ask again. */
const redriveMs = 15_000

/** What may be done on the page of jobs. */
export const jobs = {
  'retry-job': act({
    needs: { id: 'id' },
    preview: (doing, { id }) => previewOf(doing, id, retryConsequence),
    async run(doing, { id }) {
      return onJob(doing, id, async (job, { jobs }) => {
        if (await jobs.retry(id)) return { done: true, says: `Job ${id} may run now.` }
        const now = await jobs.find(id)
        const says =
          now && !canRun(now.state) && now.state !== 'done'
            ? `Job ${id} was not retried: another job of kind ${job.kind} has its unique key.`
            : `Job ${id} is ${now?.state ?? 'gone'} already.`
        return { done: false, says }
      })
    },
  }),

  'cancel-job': act({
    needs: { id: 'id' },
    preview: (doing, { id }) => previewOf(doing, id, cancelConsequence),
    async run(doing, { id }) {
      return onJob(doing, id, async (_, { jobs }) => {
        const cancelled = await jobs.cancel(id, `Cancelled by ${doing.visitor}`)
        const now = await jobs.find(id)
        if (!cancelled) return { done: false, says: `Job ${id} is ${now?.state ?? 'gone'} already.` }
        if (now?.cancelling === undefined) return { done: true, says: `Cancelled job ${id}.` }
        return { done: true, says: `Told job ${id} to stop: it ends when its handler does.` }
      })
    },
  }),

  'pause-queue': act({
    needs: { namespace: 'text', name: 'text' },
    async preview({ observer }, { namespace, name }) {
      const queue = await queueOf(observer, namespace, name)
      if (queue?.pausedAt) return { subject: `queue ${name}`, says: `"${name}" is paused already.`, grave: false }
      const { ready = 0, running = 0 } = queue ?? {}
      const says = [
        `None of the jobs of "${name}" begins any more, on any instance, until it is resumed: ${count(ready)} that ${ready === 1 ? 'is' : 'are'} ready, and all that come.`,
        running > 0 && `${count(running)} that ${running === 1 ? 'runs goes' : 'run go'} on to the end.`,
        'Nothing is lost.',
      ]
      return { subject: `queue ${name}`, says: sentences(says), grave: false }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const queue = await queueOf(observer, namespace, name)
      if (queue?.pausedAt) return { done: false, says: `"${name}" was paused already.` }
      await asMember(namespace, ({ jobs }) => jobs.pause(name))
      return { done: true, says: `Paused "${name}".` }
    },
  }),

  'resume-queue': act({
    needs: { namespace: 'text', name: 'text' },
    async preview({ observer }, { namespace, name }) {
      const queue = await queueOf(observer, namespace, name)
      if (!queue?.pausedAt) return { subject: `queue ${name}`, says: `"${name}" is not paused.`, grave: false }
      const since = (await observer.now()).getTime() - queue.pausedAt.getTime()
      const says = [
        `The jobs of "${name}", paused for ${formatDuration(since)}, begin again: ${count(queue.ready)} ${queue.ready === 1 ? 'is' : 'are'} ready.`,
        queue.workers === 0 && 'But no worker serves it.',
      ]
      return { subject: `queue ${name}`, says: sentences(says), grave: false }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const queue = await queueOf(observer, namespace, name)
      if (!queue?.pausedAt) return { done: false, says: `"${name}" was not paused any more.` }
      await asMember(namespace, ({ jobs }) => jobs.resume(name))
      return { done: true, says: `Resumed "${name}".` }
    },
  }),

  'redrive-queue': act({
    needs: { namespace: 'text', name: 'text' },
    async preview({ observer }, { namespace, name }) {
      const queue = await queueOf(observer, namespace, name)
      if (!queue || queue.buried === 0) {
        return { subject: `queue ${name}`, says: `No job of "${name}" is buried.`, grave: false }
      }
      const { buried, ready, workers, pausedAt } = queue
      const says = [
        `Lets ${jobsOf(buried)} that ${buried === 1 ? 'is' : 'are'} buried in "${name}" run again, the oldest first, with all attempts before ${buried === 1 ? 'it' : 'them'}. What their attempts did before they failed may be done again.`,
        'Those whose unique key another job has stay where they are.',
        pausedAt && 'The queue is paused: they wait until it is resumed.',
        workers === 0 && 'No worker serves the queue: they wait for one.',
      ]
      return {
        subject: `queue ${name}`,
        says: sentences(says),
        grave: true,
        facts: [
          ['Buried', count(buried)],
          ['Ready before them', count(ready)],
          ['Workers', String(workers)],
        ],
      }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const before = await queueOf(observer, namespace, name)
      if (!before || before.buried === 0) return { done: false, says: `No job of "${name}" is buried any more.` }
      const until = performance.now() + redriveMs
      const all = await asMember(namespace, async ({ jobs }) => {
        let all = 0
        for await (const some of jobs.redriving(name)) {
          all += some
          if (performance.now() > until) break
        }
        return all
      })
      if (all === 0)
        return { done: false, says: `No job of "${name}" could be brought back: others have their unique keys.` }
      const left = (await queueOf(observer, namespace, name))?.buried ?? 0
      const rest = left > 0 ? ` ${count(left)} ${left === 1 ? 'is' : 'are'} buried now: redrive again for more.` : ''
      return { done: true, says: `${jobsOf(all)} of "${name}" may run again.${rest}` }
    },
  }),
}

async function onJob(
  { observer, asMember }: Doing,
  id: number,
  work: (job: JobDetails, holdfast: Holdfast) => Promise<Outcome>,
): Promise<Outcome> {
  const job = await observer.work.job(id)
  if (!job) return { done: false, says: noSuchJob(id) }
  return asMember(job.namespace ?? 'default', (holdfast) => work(job, holdfast))
}

async function previewOf(
  { observer, redact }: Doing,
  id: number,
  consequenceOf: (job: JobDetails, now: Date) => Pick<Consequence, 'says' | 'grave'>,
): Promise<Consequence> {
  const subject = `job ${id}`
  const job = await observer.work.job(id)
  if (!job) return { subject, says: noSuchJob(id), grave: false }
  const failure = job.error ?? job.attempts.at(-1)
  const error =
    failure && errorSaid(redact({ name: failure.name, message: failure.message }, { what: 'job error', of: job.kind }))
  return {
    subject,
    ...consequenceOf(job, await observer.now()),
    facts: [
      ['Kind', job.kind],
      ['Queue', job.queue ?? `key ${job.queueKey}`],
      ['State', job.state],
      ...(job.failed > 0 ? ([['Failed', times(job.failed)]] as const) : []),
      ...(job.crashes > 0 ? ([['Crashed', times(job.crashes)]] as const) : []),
      ...(error ? ([['Last error', sentences([error.name && `${error.name}:`, error.message])]] as const) : []),
    ],
  }
}

function retryConsequence(
  { id, state, waits, runAt, attempts }: JobDetails,
  now: Date,
): Pick<Consequence, 'says' | 'grave'> {
  const says = {
    running: `Job ${id} runs already: there is nothing to do.`,
    ready: `Job ${id} may run already: there is nothing to do.`,
    done: `Job ${id} is done. It cannot be run again; enqueue another one.`,
  }[state as string]
  if (says) return { says, grave: false }
  if (state === 'waiting') {
    const leftMs = Math.max(0, (runAt?.getTime() ?? 0) - now.getTime())
    if (waits === 'jobs')
      return {
        says: `Job ${id} waits for other jobs, and still does. It is not kept by its time any more.`,
        grave: false,
      }
    if (waits === 'lane') return { says: `Job ${id} waits for a place in its lane, and still does.`, grave: false }
    return { says: `Job ${id} may run now, instead of in ${formatDuration(leftMs)}.`, grave: false }
  }
  const again = attempts.length > 0 ? ' What its attempts did before they failed may be done again.' : ''
  return {
    says: `Lets job ${id}, which is ${state}, run again with the same input and all attempts before it.${again}`,
    grave: false,
  }
}

function cancelConsequence(
  { id, state, host, osPid, instance, claimedAt, tied }: JobDetails,
  now: Date,
): Pick<Consequence, 'says' | 'grave'> {
  if (!canRun(state)) return { says: `Job ${id} is ${state} already: there is nothing to cancel.`, grave: false }
  const after = sayAfter(tied.filter((other) => other.state === 'waiting' && other.after.includes(id)))
  if (state !== 'running') {
    return { says: sentences([`Job ${id} ends here, and does not run. A retry brings it back.`, after]), grave: true }
  }
  const who = host === null ? `instance ${instance}` : `${host} process ${osPid}`
  const since = claimedAt === null ? '' : ` for ${formatDuration(now.getTime() - claimedAt.getTime())}`
  const says = [
    `Tells job ${id} to stop, which ${who} has been running${since}. It ends when its handler heeds the signal; what it has done stays done.`,
    after,
  ]
  return { says: sentences(says), grave: true }
}

/** What becomes of those that wait for it. */
function sayAfter(waiting: readonly TiedJob[]): string | false {
  const of = (ifFailed: TiedJob['ifFailed']) => waiting.filter((job) => job.ifFailed === ifFailed).length
  const [cancelled, run, wait] = [of('cancel'), of('run'), of('wait')]
  const parts = [
    cancelled > 0 && `${jobsOf(cancelled)} that waited for it ${cancelled === 1 ? 'is' : 'are'} cancelled with it`,
    run > 0 && `${jobsOf(run)} run all the same`,
    wait > 0 && `${jobsOf(wait)} wait on until it is retried`,
  ].filter((part) => typeof part === 'string')
  return parts.length > 0 && `${parts.join('; ')}.`
}

async function queueOf(observer: Doing['observer'], namespace: string, name: string): Promise<BusyQueue | undefined> {
  const { rows } = await observer.work.queues({ namespace, queue: name })
  return rows[0]
}

function canRun(state: string): boolean {
  return state === 'ready' || state === 'running' || state === 'waiting'
}

function noSuchJob(id: number): string {
  return `There is no job ${id}: it never was, or ended so long ago that it is forgotten.`
}

function sentences(parts: readonly (string | false | null | undefined)[]): string {
  return parts.filter(Boolean).join(' ')
}

/** `10,000+`: nobody counts millions to look at them. */
function count(jobs: number): string {
  return jobs > mostCounted ? `${mostCounted.toLocaleString('en')}+` : jobs.toLocaleString('en')
}

function jobsOf(jobs: number): string {
  return jobs === 1 ? '1 job' : `${jobs > mostCounted ? count(jobs) : jobs.toLocaleString('en')} jobs`
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}
