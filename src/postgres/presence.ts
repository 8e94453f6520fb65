import type { HoldfastError } from '../base/index.js'

/**
 * Presence: by what the fleet knows that an instance is alive. What an instance holds in rows (permits, deliveries in
 * flight, memberships) carries the number of its present life, and is nobody's any more when that number is not
 * present: `holdfast.is_present(number)`, in SQL. So a killed process's rows are free at once, and nothing needs to be
 * renewed for each of them.
 *
 * There are two ways to be present:
 *
 * - **by session** (`anchor.ts`): PostgreSQL itself vouches for the number, by a lock on the anchor's session. It ends
 *   in the instant in which the process dies.
 * - **by row** (`row-presence.ts`), for instances without an anchor, through any pooler: the row in `instance` expires on
 *   the database's clock unless it is renewed. It ends at the expiry.
 *
 * Either way the instance stops believing before the number can stop being present.
 */
export interface Presence {
  /** Random; what people see of the instance. */
  readonly instanceId: string
  /** The present life, or undefined between two lives. */
  readonly epoch: Epoch | undefined
  /** The present life, once there is one. Rejects when the instance closes or the signal aborts. */
  whenPresent(signal?: AbortSignal): Promise<Epoch>
  /** Calls back, in this life or a later one, when somebody has asked from outside that this instance drain. */
  onDrainRequest(listener: DrainListener): void
  /** Calls back when an operator may have taken something from this instance. Only for who cannot be notified. */
  onRevocation(listener: () => void): void
  /** Tells the fleet how far draining has come, and again at the beginning of each later life. */
  reportDrain(state: 'draining' | 'drained'): Promise<void>
  /** Ends it in good order. */
  close(): Promise<void>
}

/** `withinMs`: how long what runs may take to come to its end; undefined where nobody has said. */
export type DrainListener = (withinMs: number | undefined) => void

/** One unbroken presence. A new one begins after a loss, with a new number. */
export interface Epoch {
  readonly number: number
  /** Whether what carries its number may be believed in at this very moment. */
  readonly trusted: boolean
  /** Why it is over. */
  readonly loss: HoldfastError | undefined
  /** Calls back, once, when it is lost; returns how to stop listening. */
  onLoss(listener: (reason: HoldfastError) => void): () => void
}

/**
 * For how long the client trusts, of the time after which the server acts. The margin covers timers that fire late and
 * clocks that run at slightly different rates.
 */
export function trustedFor(expiryMs: number): number {
  return expiryMs - Math.max(200, expiryMs * 0.1)
}
