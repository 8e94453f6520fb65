import { formatDuration, HoldfastError } from '../base/index.js'
import type { Holdfast, JobStatus } from '../index.js'
import { Observer } from '../observe/index.js'
import { TestingContext } from './context.js'

const maxListed = 5

/** Thrown if jobs have not ended in time. The message shows each job's state and the reason why the job is waiting. */
export class TestTimeoutError extends HoldfastError {
  /** Status of each job that has not ended. Null for a job that does not exist. */
  readonly jobs: readonly (JobStatus | null)[]

  /** @internal */
  constructor(what: string, jobs: readonly (JobStatus | null)[], descriptions: readonly string[], withinMs: number) {
    const more = descriptions.length > maxListed ? `\n  and ${descriptions.length - maxListed} more` : ''
    const lines = descriptions.slice(0, maxListed).map((line) => `\n  ${line}`)
    super(`${what} within ${formatDuration(withinMs)}:${lines.join('')}${more}`, {
      code: 'TEST_TIMEOUT',
      retryable: false,
    })
    this.jobs = jobs
  }
}

/** Returns an error that describes each job's state. */
export async function timeoutError(holdfast: Holdfast, what: string, ids: readonly number[], withinMs: number) {
  const reports = await Promise.all(
    ids.slice(0, 100).map(async (id) => {
      const status = await holdfast.jobs.find(id)
      return { status, text: await describeJob(holdfast, id, status) }
    }),
  )
  return new TestTimeoutError(
    what,
    reports.map(({ status }) => status),
    reports.map(({ text }) => text),
    withinMs,
  )
}

async function describeJob(holdfast: Holdfast, id: number, job: JobStatus | null): Promise<string> {
  if (!job)
    return `job ${id} does not exist: its transaction has not been committed or was rolled back, or the job was removed`
  const { state, kind, queue, waitsFor, instance, claimedAt, failures, progress } = job
  const last = failures.at(-1)
  const called = `job ${id} (${kind})`
  const failed = last ? `; attempt ${last.attempt} failed: ${last.message}` : ''
  if (state === 'running') {
    const by = instance === holdfast.id ? 'this instance' : `instance ${instance ?? '(unknown)'}`
    const reached = progress === undefined ? '' : `, with progress ${JSON.stringify(progress)}`
    return `${called} has been running on ${by} since ${claimedAt!.toISOString()}${reached}${failed}`
  }
  if (state === 'waiting') {
    const isTimed = ['time', 'attempt', 'sleep', 'event'].includes(waitsFor?.reason ?? '')
    return `${called} is waiting for ${waitsFor?.text ?? 'an unknown event'}${isTimed ? ' (passTime skips the wait)' : ''}${failed}`
  }
  if (state !== 'ready') return `${called} is ${state}`
  if (waitsFor?.reason === 'pause') return `${called} is ready, but is waiting for ${waitsFor.text}${failed}`
  const { database, schema } = new TestingContext(holdfast)
  const { rows } = await new Observer(database, schema).jobs.queues({ namespace: holdfast.namespace, queue })
  const [served] = rows
  const workers = served?.workers ?? 0
  const why = workers === 0 ? 'which has no worker' : 'where all workers are busy or do not handle jobs of this kind'
  return `${called} is ready in the queue "${queue}", ${why}${failed}`
}
