import { type Duration, describe, parseDuration, textOf, UsageError } from '../base/index.js'

const longestMs = 3_650 * 86_400_000

/** What a handler may return in the place of a result. */
export class Outcome {
  readonly #isMade = true

  /** @internal */
  constructor(
    readonly state: 'retried' | 'cancelled' | 'discarded',
    readonly reason: string,
    readonly delayMs: number,
  ) {
    Object.freeze(this)
  }

  /** @internal Whether it was made here. Cannot be forged, and runs no code of the value, whatever that is. */
  static is(value: unknown): value is Outcome {
    return typeof value === 'object' && value !== null && #isMade in value
  }
}

/**
 * Returned by a handler: not now, but after a while. It counts as no failure.
 *
 * @example
 * if (response.status === 429) return retryAfter('30s')
 */
export function retryAfter(delay: Duration): Outcome {
  const ms = parseDuration(delay)
  if (ms === undefined || ms > longestMs) {
    throw new UsageError(`Expected the time of retryAfter to be a duration, got ${describe(delay)}`)
  }
  return new Outcome('retried', '', ms)
}

/**
 * Returned by a handler: the job ends as cancelled.
 *
 * @example
 * if (order.isCancelled) return cancel('the order was cancelled')
 */
export function cancel(reason = 'Cancelled by its handler'): Outcome {
  return new Outcome('cancelled', textOf(reason), 0)
}

/**
 * Returned by a handler: there is nothing to do, and nothing went wrong.
 *
 * @example
 * if (user === undefined) return discard('the user is gone')
 */
export function discard(reason = 'Discarded by its handler'): Outcome {
  return new Outcome('discarded', textOf(reason), 0)
}
