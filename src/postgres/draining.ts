import { DrainingError, defaultTimes, type Events, pause, resultWithin } from '../base/index.js'
import type { Presence } from './presence.js'

/**
 * Draining (graceful shutdown): an instance leaves the fleet without losing work. Its process continues.
 *
 *     open ──(drain(), or an operator's request)──► draining ──(no work is left)──► drained
 *
 * - **draining**: active modules, which run work, stop claiming and let running work finish. Leaderships and resources
 *   are handed over immediately. After the timeout, the remaining work's signals abort. Passive modules, which other
 *   work uses, stay usable, and draining also waits for passive modules.
 * - **drained** is final: to rejoin the fleet, close the instance and open a new one.
 *
 * The row in `instance` records the drain state and an operator's drain request. See decision 18.
 */
interface Drainable {
  /** Stops claiming work and resolves when all work has ended. After `withinMs`, the remaining work's signals abort. */
  drain(withinMs: number): Promise<void>
}

const pollMs = 25

export class Draining {
  readonly #presence: Presence
  readonly #activeRooms: readonly Drainable[]
  readonly #passiveRooms: readonly Drainable[]
  readonly #events: Events
  readonly #controller = new AbortController()
  readonly #drained: Promise<void>
  #resolveDrained = () => {}

  /** `activeRooms` are modules that run work. `passiveRooms` are modules that this work and the program use. */
  constructor(
    presence: Presence,
    events: Events,
    activeRooms: readonly Drainable[],
    passiveRooms: readonly Drainable[],
  ) {
    this.#presence = presence
    this.#events = events
    this.#activeRooms = activeRooms
    this.#passiveRooms = passiveRooms
    this.#drained = new Promise((resolve) => {
      this.#resolveDrained = resolve
    })
  }

  /** Starts to accept drain requests from operators. */
  acceptRequests(): void {
    this.#presence.onDrainRequest((withinMs) => void this.begin(withinMs))
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get whenDrained(): Promise<void> {
    return this.#drained
  }

  /**
   * Waits up to `withinMs` for all work to finish. Returns true if no work is left. Otherwise the remaining work's
   * signals abort, and draining continues.
   */
  async begin(withinMs = defaultTimes.drainWithinMs): Promise<boolean> {
    if (!this.signal.aborted) void this.#drain(withinMs)
    const drained = this.#drained.then(() => true)
    return (await resultWithin(withinMs, drained)) ?? false
  }

  async #drain(withinMs: number): Promise<void> {
    const until = performance.now() + withinMs
    this.#controller.abort(new DrainingError('instance'))
    this.#events.emitter('instance.drain-started')?.({ withinMs })
    const reporting = this.#presence.reportDrain('draining')
    const working = Promise.all(this.#activeRooms.map((room) => room.drain(withinMs)))
    // Running work uses passive modules until the work has finished. Passive modules receive their requests after the timeout, even if the
    // work has not finished.
    await resultWithin(withinMs, working)
    const leftMs = Math.max(0, until - performance.now())
    await Promise.all([working, ...this.#passiveRooms.map((room) => room.drain(leftMs))])
    await reporting
    await this.#presence.reportDrain('drained')
    this.#resolveDrained()
  }
}

/**
 * Drains a passive module: waits until everything that is held now has been released, requests the release of the rest after `withinMs`,
 * and waits again.
 */
export async function waitForRelease<T>(
  held: readonly T[],
  withinMs: number,
  { isHeld, requestRelease }: { isHeld: (one: T) => boolean; requestRelease: (one: T, reason: DrainingError) => void },
): Promise<void> {
  const until = performance.now() + withinMs
  // The function polls, because a release emits no event.
  while (held.some(isHeld) && performance.now() < until) await pause(pollMs)
  const reason = new DrainingError('instance')
  for (const one of held) if (isHeld(one)) requestRelease(one, reason)
  while (held.some(isHeld)) await pause(pollMs)
}
