import { backoffMs, pause } from '../base/index.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'

const mostTries = 30

/**
 * Asks again when the statement has collided with another: where snapshots are kept for whole transactions by default,
 * what others changed meanwhile fails it. Nothing has happened then. `also` are further states of that kind.
 */
export async function despiteCollisions<T>(ask: () => Promise<T>, ...also: readonly string[]): Promise<T> {
  const collisions: (string | undefined)[] = [sqlstate.serializationFailure, sqlstate.deadlockDetected, ...also]
  for (let attempt = 0; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      if (!collisions.includes(sqlstateOf(error)) || attempt >= mostTries) throw error
      await pause(backoffMs(attempt, 2, 50))
    }
  }
}
