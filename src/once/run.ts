import { randomUUID } from 'node:crypto'
import { whenAborted } from '../base/index.js'
import type { Epoch, HandlerTransaction } from '../postgres/index.js'
import type { AnswerCodec, StoredAnswer } from './answer.js'
import { Attempt } from './attempt.js'
import { OnceLostError } from './errors.js'
import type { Claim } from './store.js'
import type { TransactionContext } from './transaction.js'

/** Argument that a run passes to its function. */
export interface Delivery {
  readonly key: string
  /**
   * Transaction that commits together with the result. The first query begins the transaction. With the `transaction`
   * option of `Holdfast.open`, a promise of your library's transaction, which begins when `tx` is read.
   */
  readonly tx: HandlerTransaction
  /** Signal that aborts before another run can take over. The reason is a `OnceLostError`. */
  readonly signal: AbortSignal
  /** Fencing token, larger than the token of every earlier run with the key. */
  readonly fence: number
}

export type Work<T> = (delivery: Delivery) => Promise<T> | T

export interface ParsedOptions {
  readonly key: string
  /** Time when the wait ends, on the monotonic clock. */
  readonly until: number
  readonly retainMs: number
  readonly fingerprint: string | null
  readonly recordsFailures: boolean
  readonly signal: AbortSignal | undefined
}

/** Returns a claim with a new token. Each attempt needs its own token. */
export function newClaim({ key, fingerprint, retainMs }: ParsedOptions, session: number): Claim {
  return { key, token: randomUUID(), session, fingerprint, retainMs }
}

export async function runWork<T>(
  work: Work<T>,
  delivery: Delivery,
  codec: AnswerCodec<T>,
): Promise<{ value: T; written: StoredAnswer }> {
  const value = await work(delivery)
  return { value, written: codec.encode(value) }
}

export interface RunContext extends TransactionContext {
  /** Signal that aborts when a closing instance stops waiting for its runs. */
  readonly givingUp: AbortSignal
}

/** Run that this process has claimed. */
export class Run extends Attempt {
  readonly delivery: Delivery
  readonly #forgets: (() => void)[]
  readonly #onLost: () => void

  constructor(
    readonly claim: Claim,
    readonly fence: number,
    epoch: Epoch,
    context: RunContext,
    onLost: () => void,
  ) {
    super(epoch, context)
    this.#onLost = onLost
    const run = this
    this.delivery = {
      key: claim.key,
      // Reading `tx` may open a transaction.
      get tx() {
        return run.tx
      },
      // Created on first use, because most functions do not read it.
      get signal() {
        return run.signal
      },
      fence,
    }
    const lose = (reason: unknown) => this.lose(reason as Error)
    this.#forgets = [epoch.onLoss(lose), whenAborted(context.givingUp, lose)]
  }

  override lose(cause?: Error): void {
    super.lose(cause)
    this.#onLost()
  }

  lossError(cause: Error = new Error('another run has taken over')): OnceLostError {
    return new OnceLostError(this.claim.key, this.fence, cause)
  }

  /** Stops listening for the loss of the run's epoch. */
  end(): void {
    for (const forget of this.#forgets) forget()
  }
}
