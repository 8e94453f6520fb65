import type { Holdfast } from '../index.js'
import { TestingContext } from './context.js'

/**
 * Removes all jobs of this namespace: those that wait, those that run (their handlers' signals abort within about a second,
 * and nothing of them is recorded) and those that have ended. No key of a unique job stays held, and no queue paused. Answers
 * how many jobs there were.
 *
 * For the time between two tests. Never against a database whose jobs matter to anybody.
 *
 * @example
 * afterEach(() => emptyQueues(holdfast))
 */
export async function emptyQueues(holdfast: Holdfast): Promise<number> {
  const context = new TestingContext(holdfast)
  const queues = await context.queues()
  return context.database.transaction(async (tx) => {
    await tx.query(context.sql.resume.text, [queues])
    for (let all = 0; ; ) {
      const [row] = await tx.query<{ jobs: number; linked: string | null }>(context.sql.remove.text, [queues])
      // What was tied to them may be let go by their end, and is to be removed as well.
      if (row!.linked !== null) await tx.query(context.sql.release_links.text, [row!.linked])
      all += row!.jobs
      if (row!.jobs === 0) return all
    }
  })
}
