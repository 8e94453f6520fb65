import type { Holdfast } from '../index.js'
import { TestingContext } from './context.js'

/**
 * Removes all waiting, running and finished jobs in this namespace. Running jobs' signals abort within about a second,
 * and their results are not recorded. Also frees the keys of unique jobs and resumes paused queues. Returns the number
 * of removed jobs.
 *
 * Call this function between tests. Never call it on a database whose jobs matter.
 *
 * @example
 * afterEach(() => emptyQueues(holdfast))
 */
export async function emptyQueues(holdfast: Holdfast): Promise<number> {
  const context = new TestingContext(holdfast)
  const queues = await context.queues()
  return context.database.transaction(async (tx) => {
    await tx.query(context.sql.resume.text, [queues])
    await tx.query(context.sql.stop_claims.text, [queues])
    for (let all = 0; ; ) {
      const [row] = await tx.query<{ jobs: number; linked: string | null }>(context.sql.remove.text, [queues])
      // Releasing the links may make dependent jobs ready. The next iteration removes those jobs.
      if (row!.linked !== null) await tx.query(context.sql.release_links.text, [row!.linked])
      all += row!.jobs
      if (row!.jobs === 0) return all
    }
  })
}
