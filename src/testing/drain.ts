import { defaultTimes, describe, duration, listOf, pause, readOptions, text, UsageError } from '../base/index.js'
import type { Duration, Holdfast, ImplementedJob, JobStatus } from '../index.js'
import { TestingContext } from './context.js'
import { timeoutError } from './errors.js'

export interface DrainOptions {
  /** Queue to drain. Default: the given definitions' queues. */
  queue?: string | undefined
  /** Maximum duration. Default `30s`. */
  within?: Duration | undefined
}

const rules = { queue: text, within: duration() }
const pollEveryMs = 10

/**
 * Runs jobs with these definitions in this process until no job is ready, running or due. This includes jobs that the
 * jobs enqueue. Jobs that wait for a later time, and jobs in paused queues, do not run. Returns the status of each
 * attempted job. A failure appears in the job's status and is not thrown.
 *
 * @example
 * await signUp({ email: 'ada@example.com' })
 * const [welcome] = await drain(holdfast, [sendEmail])
 * expect(welcome).toMatchObject({ kind: 'send-email', state: 'done' })
 */
export async function drain(
  holdfast: Holdfast,
  definitions: readonly ImplementedJob[],
  options?: DrainOptions,
): Promise<JobStatus[]> {
  const { queue, within = defaultTimes.testDrainWithinMs } = readOptions('drain', options, rules)
  const context = new TestingContext(holdfast)
  if (!listOf(definitions)?.length) {
    throw new UsageError(`Expected a list of definitions made by defineJob, got ${describe(definitions)}`)
  }
  const queues = queue === undefined ? definitions.map((one) => one.queue) : [queue]
  const values = [holdfast.jobs.keysOf(queues), definitions.map(({ kind }) => kind)]
  const until = performance.now() + within
  const [before] = await context.run<{ last: string; tries: string }>('open_jobs', values)
  const worker = holdfast.jobs.work(definitions, { queues })
  try {
    for (;;) {
      const [left] = await context.run<{ active: string[]; due: boolean; follow_ups: boolean }>('unfinished', values)
      if (left!.active.length === 0 && !left!.follow_ups) {
        if (!left!.due) break
        await context.runMaintenance()
      }
      if (performance.now() > until) {
        throw await timeoutError(holdfast, 'The drain did not end', left!.active.map(Number), within)
      }
      await pause(pollEveryMs)
    }
    const rows = await context.run<{ id: string }>('attempted', [...values, before!.tries, before!.last])
    const found = await Promise.all(rows.map(({ id }) => holdfast.jobs.find(Number(id))))
    return found.filter((job) => job !== null)
  } finally {
    await worker.close({ within: 0 })
  }
}
