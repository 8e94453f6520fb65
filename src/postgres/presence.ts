import type { HoldfastError } from '../base/index.js'

/**
 * Presence proves to the fleet that an instance is alive. Rows that an instance holds (permits, deliveries in flight,
 * memberships) contain the number of its current epoch. These rows become free once `holdfast.is_present(number)` is
 * false. Therefore the rows of a killed process become free immediately, and the rows do not have to be renewed
 * individually.
 *
 * There are two kinds of presence:
 *
 * - **by session** (`anchor.ts`): the anchor's session holds an advisory lock on the number. Presence ends when the process dies.
 * - **by row** (`row-presence.ts`), for instances without an anchor, through any pooler: the row in `instance` expires on the database's
 *   clock unless the instance renews it.
 *
 * In both cases, the instance stops relying on its presence before `is_present` can become false.
 */
export interface Presence {
  /** Random id of the instance. */
  readonly instanceId: string
  /** The instance's name. Without an anchor, the name is confirmed to be free only once the instance is present. */
  readonly name: string
  /** Returns whether another live instance has the name that this instance was opened with. */
  isNameTaken(): Promise<boolean>
  /** The current epoch. Undefined between two epochs. */
  readonly epoch: Epoch | undefined
  /** Resolves with the epoch as soon as an epoch exists. Rejects when the instance closes or the signal aborts. */
  whenPresent(signal?: AbortSignal): Promise<Epoch>
  /** Calls the listener when an operator requests that this instance drain, in this epoch or a later epoch. */
  onDrainRequest(listener: DrainListener): void
  /**
   * Calls the listener when an operator may have revoked something. This method is only for instances that cannot receive notifications.
   */
  onRevocation(listener: () => void): void
  /**
   * Adds a look to each later heartbeat. Returns false for an instance without an anchor, which has no session for
   * heartbeats. The module then polls with its own statements. A module must also poll if it receives no result,
   * because heartbeats omit all looks for a while after a look has failed.
   */
  lookOnHeartbeat(look: Look): boolean
  /** Records the drain state immediately, and again at the beginning of each later epoch. */
  reportDrain(state: 'draining' | 'drained'): Promise<void>
  close(): Promise<void>
}

/**
 * A look: a module's read-only query that is part of each heartbeat. Its result shows an idle instance whether there is
 * work, so the instance needs no other statement. A look must neither wait nor read many rows, because the session's
 * locks depend on the heartbeat.
 */
export interface Look {
  /** Name of the look, which is unique among all looks. */
  readonly name: string
  /** Statement that returns one value for the parameter `$1`, and null for null. */
  readonly text: string
  /** Returns the parameter. Undefined if the module needs no result now. */
  readonly ask: (epoch: Epoch) => string | undefined
  readonly onAnswer: (answer: string) => void
}

/** Listener for drain requests. `withinMs` is the drain timeout, if the request specifies a timeout. */
export type DrainListener = (withinMs: number | undefined) => void

/** A period of uninterrupted presence. After a loss, a new epoch with a new number begins. */
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
 * Returns how long the client relies on its presence, given the expiry on the server. The margin covers late timers and clocks
 * that run at slightly different rates.
 */
export function trustedFor(expiryMs: number): number {
  return expiryMs - Math.max(200, expiryMs * 0.1)
}
