import type { HoldfastError } from '../base/index.js'
import type { Epoch, HandlerTransaction } from '../postgres/index.js'
import { RunTransaction, type TransactionContext } from './transaction.js'

/**
 * One call to a user's function for a delivery, a tick or a job. The call's effect must not happen twice. The attempt
 * is bound to one of the instance's epochs. After the epoch is lost, another instance may do the same work, so the
 * attempt's signal aborts before the epoch ends.
 */
export abstract class Attempt {
  readonly #epoch: Epoch
  readonly #context: TransactionContext
  #controller: AbortController | undefined
  #reason: HoldfastError | undefined
  #isLost = false
  #transaction: RunTransaction | undefined
  #isSealed = false

  constructor(epoch: Epoch, context: TransactionContext) {
    this.#epoch = epoch
    this.#context = context
  }

  get signal(): AbortSignal {
    // Detects a deadline that has passed while the event loop was blocked.
    if (!this.#epoch.trusted) this.lose(this.#epoch.loss)
    // Created on first use, because most jobs never need an abort controller.
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  get tx(): HandlerTransaction {
    if (this.#transaction === undefined) {
      this.#transaction = new RunTransaction(this.#context, this.signal)
      // The attempt has ended, so no code would end a new transaction. The transaction must not accept queries.
      if (this.#isSealed) this.#transaction.seal()
    }
    return this.#transaction.tx as HandlerTransaction
  }

  /**
   * Aborts the function's signal. Only the first reason is kept. However, if the attempt is lost later, `lose` replaces
   * that reason.
   */
  stop(reason: HoldfastError): void {
    if (this.#reason) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }

  /**
   * Marks the attempt as lost. A lost attempt must not record anything, because another instance may be doing the work.
   */
  lose(cause?: Error): void {
    if (this.#isLost) return
    this.#isLost = true
    this.#reason = this.lossError(cause)
    this.#controller?.abort(this.#reason)
  }

  get stopReason(): HoldfastError | undefined {
    return this.#reason
  }

  get isLost(): boolean {
    return this.#isLost
  }

  /** Returns the transaction if the function has used it. After this call, the transaction accepts no more queries. */
  sealed(): RunTransaction | undefined {
    this.#isSealed = true
    return this.#transaction?.seal() ? this.#transaction : undefined
  }

  /** Rolls back the transaction, if the function has used it. */
  async rollback(): Promise<void> {
    await this.sealed()?.rollback()
  }

  /** Returns the error class that the caller's API uses for a loss. */
  abstract lossError(cause?: Error): HoldfastError
}
