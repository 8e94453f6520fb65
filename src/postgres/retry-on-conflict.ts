import { backoffMs, pause } from '../base/index.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'

const maxTries = 30

/**
 * Asks again when the statement has collided with another: where snapshots are kept for whole transactions by default,
 * what others changed meanwhile fails it. Nothing has happened then. `also` are further states of that kind.
 */
export async function retryOnConflict<T>(run: () => Promise<T>, ...also: readonly string[]): Promise<T> {
  const conflicts: (string | undefined)[] = [sqlstate.serializationFailure, sqlstate.deadlockDetected, ...also]
  for (let attempt = 0; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (!conflicts.includes(sqlstateOf(error)) || attempt >= maxTries) throw error
      await pause(backoffMs(attempt, 2, 50))
    }
  }
}
