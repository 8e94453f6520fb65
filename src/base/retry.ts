import { pause } from './abort.js'
import { backoffMs } from './backoff.js'

/**
 * Retries `work` with backoff until it succeeds. Used to record something that has already happened, so `work` must
 * eventually succeed. `onError` returns the maximum pause before the next attempt, or undefined to give up. Once the
 * signal has aborted, retries without pauses.
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
