import { randomUUID } from 'node:crypto'
import { whenAborted } from '../base/index.js'
import type { Database, Life } from '../postgres/index.js'
import type { Form, Written } from './answer.js'
import { OnceLostError } from './errors.js'
import type { Claim } from './ledger.js'
import { RunTransaction, type Transaction, type TransactionStatements } from './transaction.js'

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
export interface Asked {
  readonly key: string
  /** When the wait is over. */
  readonly until: number
  readonly retainMs: number
  readonly fingerprint: string | null
  readonly recordsFailures: boolean
  readonly signal: AbortSignal | undefined
}

/** A claim of its own for each try. */
export function claimOf({ key, fingerprint, retainMs }: Asked, session: number): Claim {
  return { key, token: randomUUID(), session, fingerprint, retainMs }
}

export async function outcomeOf<T>(
  work: Work<T>,
  delivery: Delivery,
  form: Form<T>,
): Promise<{ value: T; written: Written }> {
  const value = await work(delivery)
  return { value, written: form.write(value) }
}

export interface RunGround {
  readonly database: Database
  readonly statements: TransactionStatements
  readonly expiryMs: number
  /** Aborts when the instance, closing, does not wait for its runs any longer. */
  readonly givingUp: AbortSignal
}

/** A run that this process has claimed, bound to a life of the instance. */
export class Run {
  readonly delivery: Delivery
  readonly transaction: RunTransaction
  readonly #controller = new AbortController()
  readonly #forgets: (() => void)[]

  constructor(
    readonly claim: Claim,
    readonly fence: number,
    life: Life,
    { database, statements, expiryMs, givingUp }: RunGround,
  ) {
    const { signal } = this.#controller
    this.transaction = new RunTransaction(database, statements, expiryMs, signal)
    this.delivery = { key: claim.key, tx: this.transaction.tx, signal, fence }
    const lose = (reason: unknown) => this.#controller.abort(this.lost(reason as Error))
    this.#forgets = [life.onLoss(lose), whenAborted(givingUp, lose)]
  }

  lost(cause: Error = new Error('another run has taken over')): OnceLostError {
    return new OnceLostError(this.claim.key, this.fence, cause)
  }

  /** Nothing is told to it any more. */
  end(): void {
    for (const forget of this.#forgets) forget()
  }
}
