import { randomUUID } from 'node:crypto'
import { whenAborted } from '../base/index.js'
import type { Epoch } from '../postgres/index.js'
import type { AnswerCodec, StoredAnswer } from './answer.js'
import { Attempt, type AttemptContext } from './attempt.js'
import { OnceLostError } from './errors.js'
import type { Claim } from './store.js'
import type { Transaction } from './transaction.js'

/** What a run is given. */
export interface Delivery {
  readonly key: string
  /** Writes that commit together with the answer. The transaction begins with the first query. */
  readonly tx: Transaction
  /** Aborts when another run may take over, before it can. The reason is a `OnceLostError`. */
  readonly signal: AbortSignal
  /** Larger than that of every earlier run of the key. */
  readonly fence: number
}

export type Work<T> = (delivery: Delivery) => Promise<T> | T

/** What the caller asked for. */
export interface ParsedOptions {
  readonly key: string
  /** When the wait is over. */
  readonly until: number
  readonly retainMs: number
  readonly fingerprint: string | null
  readonly recordsFailures: boolean
  readonly signal: AbortSignal | undefined
}

/** A claim of its own for each try. */
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

export interface RunContext extends AttemptContext {
  /** Aborts when the instance closes and no longer waits for its runs. */
  readonly givingUp: AbortSignal
}

/** A run that this process has claimed. */
export class Run extends Attempt {
  readonly delivery: Delivery
  readonly #forgets: (() => void)[]

  constructor(
    readonly claim: Claim,
    readonly fence: number,
    epoch: Epoch,
    context: RunContext,
  ) {
    super(epoch, context)
    this.delivery = { key: claim.key, tx: this.tx, signal: this.signal, fence }
    const lose = (reason: unknown) => this.lose(reason as Error)
    this.#forgets = [epoch.onLoss(lose), whenAborted(context.givingUp, lose)]
  }

  lossError(cause: Error = new Error('another run has taken over')): OnceLostError {
    return new OnceLostError(this.claim.key, this.fence, cause)
  }

  /** Nothing is told to it any more. */
  end(): void {
    for (const forget of this.#forgets) forget()
  }
}
