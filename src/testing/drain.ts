import { describe, duration, pause, readOptions, text, UsageError } from '../base/index.js'
import type { Duration, Holdfast, JobDefinition, JobStatus } from '../index.js'
import { timedOut } from './errors.js'
import { Ground } from './ground.js'

export interface DrainOptions {
  /** Only the jobs of this queue. Default: the queues of the definitions. */
  queue?: string | undefined
  /** How long it may take. Default `30s`. */
  within?: Duration | undefined
}

const rules = { queue: text, within: duration() }
const lookEveryMs = 10

/**
 * Runs the jobs of these definitions, in this process, until none of them is ready, runs or is due; also those that they
 * enqueue meanwhile. Jobs that wait for a later time, and those in a paused queue, stay where they are. Answers with how
 * each job that was attempted stands: what failed is in the answer, and is not thrown.
 *
 * @example
 * await signUp({ email: 'ada@example.com' })
 * const [welcome] = await drain(holdfast, [sendEmail])
 * expect(welcome).toMatchObject({ kind: 'send-email', state: 'done' })
 */
export async function drain(
  holdfast: Holdfast,
  // biome-ignore lint/suspicious/noExplicitAny: definitions of all types
  definitions: readonly JobDefinition<any, any, any>[],
  options?: DrainOptions,
): Promise<JobStatus[]> {
  const { queue, within = 30_000 } = readOptions('drain', options, rules)
  const ground = new Ground(holdfast)
  if (!Array.isArray(definitions) || definitions.length === 0) {
    throw new UsageError(`Expected a list of definitions made by defineJob, got ${describe(definitions)}`)
  }
  const queues = queue === undefined ? definitions.map((one) => one.queue) : [queue]
  const values = [holdfast.jobs.keysOf(queues), definitions.map(({ kind }) => kind)]
  const until = performance.now() + within
  const [before] = await ground.run<{ last: string; tries: string }>('unended', values)
  const worker = holdfast.jobs.work(definitions, { queues })
  try {
    for (;;) {
      const [left] = await ground.run<{ active: string[]; due: boolean; loose: boolean }>('left', values)
      if (left!.active.length === 0 && !left!.loose) {
        if (!left!.due) break
        await ground.round()
      }
      if (performance.now() > until) {
        throw await timedOut(holdfast, 'The drain has not come to its end', left!.active.map(Number), within)
      }
      await pause(lookEveryMs)
    }
    const rows = await ground.run<{ id: string }>('attempted', [...values, before!.tries, before!.last])
    const found = await Promise.all(rows.map(({ id }) => holdfast.jobs.find(Number(id))))
    return found.filter((job) => job !== null)
  } finally {
    await worker.close({ within: 0 })
  }
}
