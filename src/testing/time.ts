import { describe, parseDuration, pause, UsageError } from '../base/index.js'
import type { Duration, Holdfast } from '../index.js'
import { TestingContext } from './context.js'

/**
 * Lets so much time pass for the jobs of this namespace that wait: delayed ones, and those that wait for their next
 * attempt; and for the windows of unique jobs. What is due by it may run when this resolves. Answers how many that are.
 *
 * It moves nothing else: no clock, no timeout of a job that runs, no lease, rate, limit or retention, and no other namespace.
 *
 * @example
 * await holdfast.jobs.enqueue(remind, { cart: 7 }, { delay: '1h' })
 * await passTime(holdfast, '1h')
 * await drain(holdfast, [remind])
 */
export async function passTime(holdfast: Holdfast, time: Duration): Promise<number> {
  const ms = parseDuration(time)
  if (ms === undefined) throw new UsageError(`Expected the time that passes to be a duration, got ${describe(time)}`)
  const context = new TestingContext(holdfast)
  const queues = await context.queues()
  const [row] = await context.run<{ due: number }>('pass_time', [queues, ms])
  // The instances have no reason to look before the time that they were told.
  for (let areDue = row!.due > 0; areDue; ) {
    const isAll = await context.runMaintenance()
    const [left] = await context.run<{ are_due: boolean }>('are_due', [queues])
    // Where a round moves nothing, something else than their time holds them.
    areDue = left!.are_due && !isAll
    if (areDue) await pause(2)
  }
  return row!.due
}
