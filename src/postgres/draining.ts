import { type Events, InstanceDrainingError, pause, resultWithin } from '../base/index.js'
import type { Presence } from './presence.js'

/**
 * Draining: an instance gives up its part in the fleet without a loss, and its process lives on.
 *
 *     open ──(drain(), or asked from outside)──► draining ──(nothing is left)──► drained
 *
 * - **draining**: the rooms that run work of their own take none any more, and let what runs come to its end; what is
 *   held for good is handed over at once. When the time is over, what still runs is told to stop. The rooms that are
 *   only used by other work go on, and are waited for, too.
 * - **drained** is for good: who wants the process to take part again closes the instance and opens another.
 *
 * The row in `instance` tells people how far it has come; the same row asks it from outside. See decision 18.
 */
interface Drainable {
  /**
   * Takes no new work, and resolves when what there was has come to its end. What has not after `withinMs` is told to stop.
   */
  drain(withinMs: number): Promise<void>
}

export const drainWithinMs = 30_000
const pollMs = 25

export class Draining {
  readonly #presence: Presence
  readonly #activeRooms: readonly Drainable[]
  readonly #passiveRooms: readonly Drainable[]
  readonly #events: Events
  readonly #controller = new AbortController()
  readonly #drained: Promise<void>
  #resolveDrained = () => {}

  /** `workers` run work of their own accord; `means` are used by it, and by the program. */
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

  /** From now on it may be asked from outside. */
  acceptRequests(): void {
    this.#presence.onDrainRequest((withinMs) => void this.begin(withinMs))
  }

  /** Aborts when draining begins. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Resolves when nothing is left. */
  get whenDrained(): Promise<void> {
    return this.#drained
  }

  /** Whether nothing is left, within that time. If something is, it has been told to stop, and draining goes on. */
  async begin(withinMs = drainWithinMs): Promise<boolean> {
    if (!this.signal.aborted) void this.#drain(withinMs)
    const drained = this.#drained.then(() => true)
    return (await resultWithin(withinMs, drained)) ?? false
  }

  async #drain(withinMs: number): Promise<void> {
    const until = performance.now() + withinMs
    this.#controller.abort(new InstanceDrainingError())
    this.#events.emitter('instance.drain-started')?.({ withinMs })
    const reporting = this.#presence.reportDrain('draining')
    const working = Promise.all(this.#activeRooms.map((room) => room.drain(withinMs)))
    // Work uses the means until its end. Work that does not end must not keep the others from being told.
    await resultWithin(withinMs, working)
    const leftMs = Math.max(0, until - performance.now())
    await Promise.all([working, ...this.#passiveRooms.map((room) => room.drain(leftMs))])
    await reporting
    await this.#presence.reportDrain('drained')
    this.#resolveDrained()
  }
}

/**
 * For what is only used by other work: waits for what is held now, asks what is left after `withinMs` to let go, and waits
 * for that, too.
 */
export async function waitForRelease<T>(
  held: readonly T[],
  withinMs: number,
  {
    isHeld,
    requestRelease,
  }: { isHeld: (one: T) => boolean; requestRelease: (one: T, reason: InstanceDrainingError) => void },
): Promise<void> {
  const until = performance.now() + withinMs
  // Looked at now and then, for it has no event of its own.
  while (held.some(isHeld) && performance.now() < until) await pause(pollMs)
  const reason = new InstanceDrainingError()
  for (const one of held) if (isHeld(one)) requestRelease(one, reason)
  while (held.some(isHeld)) await pause(pollMs)
}
