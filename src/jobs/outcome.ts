import { type Duration, describe, parseDuration, textOf, UsageError } from '../base/index.js'

const maxDelayMs = 3_650 * 86_400_000

/**
 * Return value with which a handler ends its attempt without a result and without a failure.
 *
 * @example
 * const sendOrder = defineJob('send-order', {
 *   run: async ({ order }: { order: number }) => {
 *     const response = await send(order)
 *     if (response.status === 429) return JobOutcome.retryAfter('30s')
 *     if (response.status === 410) return JobOutcome.cancel('the order was cancelled')
 *   },
 * })
 */
export class JobOutcome {
  readonly #isMade = true

  /** @internal */
  constructor(
    readonly state: 'retried' | 'cancelled' | 'discarded',
    readonly reason: string,
    readonly delayMs: number,
  ) {
    Object.freeze(this)
  }

  /** Runs the job again after the delay. The attempt does not count as a failure. */
  static retryAfter(delay: Duration): JobOutcome {
    const ms = parseDuration(delay)
    if (ms === undefined || ms > maxDelayMs) {
      throw new UsageError(`Expected the delay of JobOutcome.retryAfter to be a duration, got ${describe(delay)}`)
    }
    return new JobOutcome('retried', '', ms)
  }

  /** Ends the job as cancelled. */
  static cancel(reason = 'Cancelled by its handler'): JobOutcome {
    return new JobOutcome('cancelled', textOf(reason), 0)
  }

  /** Ends the job as discarded, which means that there was nothing to do and nothing failed. */
  static discard(reason = 'Discarded by its handler'): JobOutcome {
    return new JobOutcome('discarded', textOf(reason), 0)
  }

  /**
   * @internal Whether a value was made by this class. A forged object is rejected, and no code that belongs to the
   * value runs.
   */
  static is(value: unknown): value is JobOutcome {
    return typeof value === 'object' && value !== null && #isMade in value
  }
}
