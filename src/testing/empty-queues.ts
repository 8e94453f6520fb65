import type { Holdfast } from '../index.js'
import { Ground } from './ground.js'

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
  const ground = new Ground(holdfast)
  const queues = await ground.queues()
  return ground.database.transaction(async (tx) => {
    await tx.query(ground.sql.resume.text, [queues])
    for (let all = 0; ; ) {
      const [row] = await tx.query<{ jobs: number; tied: string | null }>(ground.sql.remove.text, [queues])
      // What was tied to them may be let go by their end, and is to be removed as well.
      if (row!.tied !== null) await tx.query(ground.sql.settle.text, [row!.tied])
      all += row!.jobs
      if (row!.jobs === 0) return all
    }
  })
}
