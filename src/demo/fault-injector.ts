import { pause } from '../base/index.js'
import type { Fleet, Member } from './fleet.js'
import { Random } from './random.js'

interface FaultListener {
  killed(member: Member): void
  frozen(member: Member): void
  thawed(member: Member, afterMs: number): void
}

/** Kills and freezes instances at random times. Replaces killed instances, as a supervisor would. */
export class FaultInjector {
  readonly #fleet: Fleet
  readonly #random: Random
  readonly #instances: number
  readonly #expiryMs: number
  readonly #listener: FaultListener

  constructor(fleet: Fleet, seed: number, expiryMs: number, instances: number, listener: FaultListener) {
    this.#fleet = fleet
    this.#random = new Random(seed)
    this.#expiryMs = expiryMs
    this.#instances = instances
    this.#listener = listener
  }

  async run(stop: AbortSignal): Promise<void> {
    const running = new Set<Promise<void>>()
    for (let round = 0; ; ) {
      await pause(this.#random.between(4_000, 8_000), stop)
      if (stop.aborted) break
      const { open } = this.#fleet
      // Keeps enough instances open for takeovers.
      if (open.length <= this.#instances / 2) continue
      // The first fault is a kill and the second fault is a freeze, so that even a short demo shows both.
      const kills = round === 0 || (round > 1 && this.#random.chance(0.6))
      const victim = this.#random.pick(open)
      round++
      const fault = (kills ? this.#killAndReplace(victim!, stop) : this.#freezeAndThaw(victim!, stop)).finally(() =>
        running.delete(fault),
      )
      running.add(fault)
    }
    await Promise.all(running)
  }

  async #killAndReplace(victim: Member, stop: AbortSignal): Promise<void> {
    this.#listener.killed(victim)
    victim.kill()
    await pause(this.#random.between(500, 2_000), stop)
    if (!stop.aborted) this.#fleet.start()
  }

  /** Freezes an instance, usually until after its locks have expired, and sometimes for a shorter time. */
  async #freezeAndThaw(victim: Member, stop: AbortSignal): Promise<void> {
    const expiries = this.#random.chance(0.75) ? this.#random.between(1.3, 2) : 0.2
    const frozenAt = performance.now()
    this.#listener.frozen(victim)
    victim.freeze()
    await pause(this.#expiryMs * expiries, stop)
    await victim.thaw()
    this.#listener.thawed(victim, performance.now() - frozenAt)
  }
}
