import { backoffMs, pause } from '../base/index.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'

const maxTries = 30

/**
 * Retries a statement after a conflict with another transaction. If the default isolation level is higher than READ
 * COMMITTED, PostgreSQL fails a statement whose rows were changed concurrently. The failed statement has changed
 * nothing. `also` contains further SQLSTATEs that cause a retry.
 */
export async function retryOnConflict<T>(run: () => Promise<T>, ...also: readonly string[]): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      const conflicts: (string | undefined)[] = [sqlstate.serializationFailure, sqlstate.deadlockDetected, ...also]
      if (!conflicts.includes(sqlstateOf(error)) || attempt >= maxTries) throw error
      await pause(backoffMs(attempt, 2, 50))
    }
  }
}
