import { pause } from './abort.js'
import { backoffMs } from './backoff.js'

/**
 * Repeats `work`, with growing pauses, until it succeeds: something has happened, and only its record is missing. `onError` returns the
 * longest pause before the next try, or undefined to give up. When the signal aborts, the next try follows without a pause.
 */
export async function retryUntilRecorded<T>(
  signal: AbortSignal,
  work: () => Promise<T>,
  onError: (error: unknown) => number | undefined,
): Promise<T | undefined> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const maxPauseMs = onError(error)
      if (maxPauseMs === undefined) return undefined
      await pause(backoffMs(attempt, 50, maxPauseMs), signal)
    }
  }
}
