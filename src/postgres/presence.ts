import type { HoldfastError } from '../base/index.js'

/**
 * Presence is the proof to the fleet that an instance is alive. Rows that an instance holds (permits, deliveries in flight, memberships)
 * carry the number of its current epoch. These rows become free once `holdfast.is_present(number)` is false. So the rows of a killed
 * process become free immediately, and rows need no renewal of their own.
 *
 * There are two kinds of presence:
 *
 * - **by session** (`anchor.ts`): the anchor's session holds an advisory lock on the number. Presence ends when the process dies.
 * - **by row** (`row-presence.ts`), for instances without an anchor, through any pooler: the row in `instance` expires on the database's
 *   clock unless the instance renews it.
 *
 * In both cases, the instance stops trusting its presence before `is_present` can become false.
 */
export interface Presence {
  /** Random id of the instance. */
  readonly instanceId: string
  /** The current epoch. Undefined between two epochs. */
  readonly epoch: Epoch | undefined
  /** Resolves with the epoch as soon as there is one. Rejects when the instance closes or the signal aborts. */
  whenPresent(signal?: AbortSignal): Promise<Epoch>
  /** Calls the listener, in this epoch or a later one, when an operator requests that this instance drain. */
  onDrainRequest(listener: DrainListener): void
  /** Calls the listener when an operator may have revoked something. Only for instances that cannot receive notifications. */
  onRevocation(listener: () => void): void
  /** Records the drain state immediately, and again at the beginning of each later epoch. */
  reportDrain(state: 'draining' | 'drained'): Promise<void>
  close(): Promise<void>
}

/** `withinMs` is the drain timeout, if the request has one. */
export type DrainListener = (withinMs: number | undefined) => void

/** An uninterrupted presence. After a loss a new epoch begins, with a new number. */
export interface Epoch {
  readonly number: number
  /** Whether the instance may rely on rows with this number now. */
  readonly trusted: boolean
  /** The reason for the loss, if the epoch was lost. */
  readonly loss: HoldfastError | undefined
  /** Calls the listener once, when the epoch is lost. Returns a function that stops listening. */
  onLoss(listener: (reason: HoldfastError) => void): () => void
}

/**
 * Returns the time for which the client trusts its presence, given the expiry on the server. The margin covers late timers and clocks that
 * run at slightly different rates.
 */
export function trustedFor(expiryMs: number): number {
  return expiryMs - Math.max(200, expiryMs * 0.1)
}
