import { describe, parseDuration, pause, UsageError } from '../base/index.js'
import type { Duration, Holdfast } from '../index.js'
import { TestingContext } from './context.js'

/**
 * Simulates the passage of time for waiting jobs in this namespace, for unique jobs' windows and for deadlines. Waiting
 * jobs are delayed and sleeping jobs, jobs that are waiting for an event, and jobs that are waiting for their next
 * attempt. When the call has resolved, due jobs may run, and jobs whose `startBy` has passed have expired. Returns the
 * number of due jobs.
 *
 * Changes nothing else: clocks, running jobs' timeouts, leases, rates, limits, retention and other namespaces stay
 * unchanged.
 *
 * @example
 * await holdfast.jobs.enqueue(remind, { cart: 7 }, { delay: '1h' })
 * await passTime(holdfast, '1h')
 * await drain(holdfast, [remind])
 */
export async function passTime(holdfast: Holdfast, time: Duration): Promise<number> {
  const ms = parseDuration(time)
  if (ms === undefined) throw new UsageError(`Expected time to be a duration, got ${describe(time)}`)
  const context = new TestingContext(holdfast)
  const queues = await context.queues()
  const [row] = await context.run<{ due: number; late: number }>('pass_time', [queues, ms])
  // This function makes due jobs ready and expires late jobs itself, because the instances poll only at the original
  // times.
  for (let areDue = row!.due + row!.late > 0; areDue; ) {
    const areAllExpired = await context.expire()
    const areAllMoved = await context.runMaintenance()
    const [left] = await context.run<{ are_due: boolean }>('are_due', [queues])
    // If maintenance changes no job, another condition is blocking the due jobs.
    areDue = left!.are_due && !(areAllExpired && areAllMoved)
    if (areDue) await pause(2)
  }
  return row!.due
}
