import { backoffMs, type Key, pause } from '../base/index.js'
import {
  type Anchor,
  type Session,
  type Statement,
  sqlstate,
  sqlstateOf,
  TooManyConnectionsError,
} from '../postgres/index.js'
import type { Mode, Turns } from './turns.js'

export type WaitStatements = Record<'wait' | 'probe' | 'cancel', Statement>

const closeIdleAfterMs = 30_000
const sliceOfExpiry = 0.4

/**
 * The few connections on which an instance waits for contended names, so that waiting never blocks the anchor.
 *
 * A place is taken for a name when its first waiter must wait, and kept while somebody of this process waits for the
 * name or holds it there; a lock cannot move from one session to another. Idle places are closed after half a
 * minute. When all are taken, further names are tried for on the anchor from time to time; see the arbiter.
 */
export class Parking {
  readonly #idle: Place[] = []
  readonly #queue: ((place: Place | undefined) => void)[] = []
  /** Whoever takes up one of the `most` connections, or is about to. */
  readonly #open = new Set<object>()
  #closed = false

  constructor(
    readonly anchor: Anchor,
    readonly statements: WaitStatements,
    readonly expiryMs: number,
    readonly most: number,
    readonly newTurns: (session: Session) => Turns,
  ) {}

  /** A place, or undefined when none is to be had within `patienceMs`. */
  async take(patienceMs: number): Promise<Place | undefined> {
    for (let place = this.#idle.pop(); place; place = this.#idle.pop()) {
      place.wake()
      if (place.turns.session.trusted) return place
    }
    if (this.#open.size < this.most) return this.#openPlace(patienceMs)
    return new Promise((resolve) => {
      const give = (place: Place | undefined) => {
        clearTimeout(timer)
        resolve(place)
      }
      const timer = setTimeout(() => {
        this.#queue.splice(this.#queue.indexOf(give), 1)
        resolve(undefined)
      }, patienceMs)
      this.#queue.push(give)
    })
  }

  /** Takes a place back on which nothing is held or waited for. */
  async give(place: Place): Promise<void> {
    if (!place.turns.session.trusted) return
    if (this.#closed) return this.#closePlace(place)
    const next = this.#queue.shift()
    if (next) return next(place)
    this.#idle.push(place)
    place.sleep(closeIdleAfterMs, () => {
      this.#idle.splice(this.#idle.indexOf(place), 1)
      void this.#closePlace(place)
    })
  }

  /** Closes the idle places, and from now on every place that is given back. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#idle.splice(0).map((place) => this.#closePlace(place)))
  }

  async #openPlace(patienceMs: number): Promise<Place | undefined> {
    const room = {}
    this.#open.add(room)
    try {
      const session = await this.anchor.openBeside()
      const place = new Place(this, this.newTurns(session))
      this.#open.add(place)
      session.onLoss(() => this.#leave(place))
      return place
    } catch (error) {
      if (!(error instanceof TooManyConnectionsError)) throw error
      // Trying from time to time on the anchor is slower, but asks nothing more of the server.
      await pause(patienceMs)
      return undefined
    } finally {
      this.#open.delete(room)
    }
  }

  async #closePlace(place: Place): Promise<void> {
    place.wake()
    await place.turns.session.close()
    this.#leave(place)
  }

  #leave(place: Place): void {
    place.wake()
    this.#open.delete(place)
    const idleAt = this.#idle.indexOf(place)
    if (idleAt >= 0) this.#idle.splice(idleAt, 1)
    // There is room for a new place: whoever stands first in the queue asks again.
    this.#queue.shift()?.(undefined)
  }
}

/** One parked connection. */
export class Place {
  readonly turns: Turns
  readonly #parking: Parking
  #idleTimer: NodeJS.Timeout | undefined
  #sliceEndsAt = 0

  constructor(parking: Parking, turns: Turns) {
    this.#parking = parking
    this.turns = turns
  }

  /**
   * Waits for a key for at most one slice: well within the expiry, so that a grant always arrives with trust left, and
   * so that a blocked statement, which holds vacuum back, is never old. Answers with the fence, or undefined when
   * the slice is over. A name that is leased is tried for again in a while.
   */
  async wait(key: Key, mode: Mode, patienceMs: number): Promise<number | undefined> {
    const sliceMs = Math.max(1, Math.ceil(Math.min(this.#parking.expiryMs * sliceOfExpiry, patienceMs)))
    const { statements } = this.#parking
    this.#sliceEndsAt = performance.now() + sliceMs
    try {
      const [row] = await this.turns.session.runGrant(statements.wait, [key.key, mode === 'shared', String(sliceMs)])
      if (row![0] !== null) return Number(row![0])
      // Somebody has the name by lease, and a lease has no queue.
      await pause(Math.min(backoffMs(2, 25, 250), patienceMs))
      return undefined
    } catch (error) {
      // Also for errors that should leave nothing behind: releasing what is not held is harmless.
      if (this.turns.session.trusted) await this.turns.release(key, mode)
      const over = [sqlstate.lockNotAvailable, sqlstate.queryCanceled] as (string | undefined)[]
      if (over.includes(sqlstateOf(error))) return undefined
      throw error
    } finally {
      this.#sliceEndsAt = 0
    }
  }

  /** Ends the slice that is under way, unless it ends soon by itself. */
  cancel(): void {
    if (this.#sliceEndsAt - performance.now() < 50) return
    // Once: a second one would strike what comes after the wait.
    this.#sliceEndsAt = 0
    const { anchor, statements } = this.#parking
    anchor.session?.run(statements.cancel, [this.turns.session.backendPid]).catch(() => {})
  }

  /** Whether no writer waits for the key elsewhere. */
  async admitsReaders(key: Key): Promise<boolean> {
    const [row] = await this.turns.session.run(this.#parking.statements.probe, [key.key])
    return row![0] as unknown as boolean
  }

  sleep(afterMs: number, onIdle: () => void): void {
    this.#idleTimer = setTimeout(onIdle, afterMs).unref()
  }

  wake(): void {
    clearTimeout(this.#idleTimer)
  }
}
