import { formatDuration, HoldfastError } from '../base/index.js'
import type { Holdfast, JobStatus } from '../index.js'
import { Observer } from '../observe/index.js'
import { TestingContext } from './context.js'

const maxListed = 5

/** A test has waited for jobs to end, and they have not in time. The message says where each is, and why it waits. */
export class TestTimeoutError extends HoldfastError {
  /** The jobs that have not ended, as they were then; null for one that is not there. */
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

/** Where each of the jobs is, and why it waits. */
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
  if (!job) return `job ${id} is not there: it never was, its transaction is open or rolled back, or it was removed`
  const { state, kind, queue, waitsFor, instance, claimedAt, failures, progress } = job
  const last = failures.at(-1)
  const called = `job ${id} (${kind})`
  const failed = last ? `; its attempt ${last.attempt} failed: ${last.message}` : ''
  if (state === 'running') {
    const by = instance === holdfast.id ? 'on this instance' : `on instance ${instance ?? 'that is gone'}`
    const reached = progress === undefined ? '' : `, and is at ${progress}`
    return `${called} runs ${by}, since ${claimedAt!.toISOString()}${reached}${failed}`
  }
  if (state === 'waiting') {
    const isTimed = waitsFor?.reason === 'time' || waitsFor?.reason === 'attempt'
    return `${called} waits for ${waitsFor?.text ?? 'something'}${isTimed ? ': passTime lets it come sooner' : ''}${failed}`
  }
  if (state !== 'ready') return `${called} is ${state}`
  if (waitsFor?.reason === 'pause') return `${called} is ready, and waits for ${waitsFor.text}${failed}`
  const { database, schema } = new TestingContext(holdfast)
  const { rows } = await new Observer(database, schema).jobs.queues({ namespace: holdfast.namespace, queue })
  const [served] = rows
  const workers = served?.workers ?? 0
  const why = workers === 0 ? 'where nobody works' : 'where all who work are busy, or do not know its kind'
  return `${called} is ready in the queue "${queue}", ${why}${failed}`
}
