import { pause } from '../base/index.js'
import type { Fleet, Member } from './fleet.js'
import { Random } from './random.js'

interface MischiefListener {
  killed(member: Member): void
  frozen(member: Member): void
  thawed(member: Member, afterMs: number): void
}

/** Kills and freezes instances now and then, and has those that were killed replaced, as a supervisor would. */
export class Mischief {
  readonly #fleet: Fleet
  readonly #random: Random
  readonly #instances: number
  readonly #expiryMs: number
  readonly #listener: MischiefListener

  constructor(fleet: Fleet, seed: number, expiryMs: number, instances: number, listener: MischiefListener) {
    this.#fleet = fleet
    this.#random = new Random(seed)
    this.#expiryMs = expiryMs
    this.#instances = instances
    this.#listener = listener
  }

  async go(over: AbortSignal): Promise<void> {
    const underWay = new Set<Promise<void>>()
    for (let turn = 0; ; ) {
      await pause(this.#random.between(4_000, 8_000), over)
      if (over.aborted) break
      const { open } = this.#fleet
      // The others must be enough to take over.
      if (open.length <= this.#instances / 2) continue
      // Whoever watches for a quarter of a minute has seen both.
      const kills = turn === 0 || (turn > 1 && this.#random.chance(0.6))
      const victim = this.#random.pick(open)
      turn++
      const act = (kills ? this.#replace(victim!, over) : this.#freeze(victim!, over)).finally(() =>
        underWay.delete(act),
      )
      underWay.add(act)
    }
    await Promise.all(underWay)
  }

  async #replace(victim: Member, over: AbortSignal): Promise<void> {
    this.#listener.killed(victim)
    victim.kill()
    await pause(this.#random.between(500, 2_000), over)
    if (!over.aborted) this.#fleet.start()
  }

  /** Mostly for longer than its locks last; sometimes for less, which nobody should notice. */
  async #freeze(victim: Member, over: AbortSignal): Promise<void> {
    const times = this.#random.chance(0.75) ? this.#random.between(1.3, 2) : 0.2
    const frozenAt = performance.now()
    this.#listener.frozen(victim)
    victim.freeze()
    await pause(this.#expiryMs * times, over)
    await victim.thaw()
    this.#listener.thawed(victim, performance.now() - frozenAt)
  }
}
