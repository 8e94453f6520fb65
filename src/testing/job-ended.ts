import { backoffMs, defaultTimes, duration, hasEnded, pause, readOptions } from '../base/index.js'
import type { Duration, Holdfast, JobStatus } from '../index.js'
import { timeoutError } from './errors.js'

export interface JobEndedOptions {
  /** Maximum time to wait. Default `10s`. */
  within?: Duration | undefined
}

const rules = { within: duration() }

/**
 * Waits until a job has ended in any process, and returns the job's status: done, cancelled, expired, discarded or buried. If
 * the job does not end in time, throws a `TestTimeoutError` that shows the job's state and the reason why the job is
 * waiting.
 *
 * @example
 * const { id } = await holdfast.jobs.enqueue(makeReport, { year: 2030 })
 * expect(await jobEnded(holdfast, id, { within: '5s' })).toMatchObject({ state: 'done', result: { pages: 12 } })
 */
export async function jobEnded(holdfast: Holdfast, id: number, options?: JobEndedOptions): Promise<JobStatus> {
  const { within = defaultTimes.testJobEndedWithinMs } = readOptions('jobEnded', options, rules)
  const until = performance.now() + within
  for (let attempt = 0; ; attempt++) {
    const status = await holdfast.jobs.find(id)
    if (status && hasEnded(status.state)) return status
    const leftMs = until - performance.now()
    if (leftMs <= 0) throw await timeoutError(holdfast, 'The job did not end', [id], within)
    await pause(Math.min(leftMs, backoffMs(attempt, 5, 100)))
  }
}
