import { pause } from '../base/index.js'
import type { Fleet, Member } from './fleet.js'
import { Random } from './random.js'

interface FaultOptions {
  readonly fleet: Fleet
  /** Instances of the company without Holdfast. Each fault also hits the instance with the same name. */
  readonly twins: Fleet | undefined
  readonly seed: number
  readonly expiryMs: number
  readonly instances: number
}

interface FaultListener {
  killed(member: Member): void
  frozen(member: Member): void
  thawed(member: Member, afterMs: number): void
}

/** Kills and freezes instances at random times. Replaces killed instances, as a supervisor would. */
export class FaultInjector {
  readonly #options: FaultOptions
  readonly #random: Random
  readonly #listener: FaultListener
  readonly #running = new Set<Promise<void>>()
  #stop: AbortSignal | undefined

  constructor(options: FaultOptions, listener: FaultListener) {
    this.#options = options
    this.#random = new Random(options.seed)
    this.#listener = listener
  }

  async run(stop: AbortSignal): Promise<void> {
    this.#stop = stop
    for (let round = 0; ; ) {
      await pause(this.#random.between(4_000, 8_000), stop)
      if (stop.aborted) break
      if (!this.#canLoseOne) continue
      // The first fault is a kill and the second fault is a freeze, so that even a short demo shows both.
      const kills = round === 0 || (round > 1 && this.#random.chance(0.6))
      const victim = this.#random.pick(this.#options.fleet.open)!
      round++
      this.#track(kills ? this.#killAndReplace(victim, stop) : this.#freezeAndThaw(victim, stop))
    }
    await Promise.all(this.#running)
  }

  /**
   * Calls `before`, and then kills the instance that has the most work. Returns undefined if too few instances are
   * open, or if the demo is not running.
   */
  killOne(before: (victim: Member) => void): Member | undefined {
    const stop = this.#stop
    if (!stop || stop.aborted || !this.#canLoseOne) return undefined
    // Consumes no random numbers, because the same seed must always produce the same faults.
    const victim = this.#options.fleet.open.reduce((a, b) => (b.works.size > a.works.size ? b : a))
    before(victim)
    this.#track(this.#killAndReplace(victim, stop))
    return victim
  }

  /** Keeps enough instances open for takeovers. */
  get #canLoseOne(): boolean {
    return this.#options.fleet.open.length > this.#options.instances / 2
  }

  #track(fault: Promise<void>): void {
    const tracked = fault.finally(() => this.#running.delete(tracked))
    this.#running.add(tracked)
  }

  async #killAndReplace(victim: Member, stop: AbortSignal): Promise<void> {
    const { fleet, twins } = this.#options
    this.#listener.killed(victim)
    victim.kill()
    twins?.find(victim.name)?.kill()
    await pause(this.#random.between(500, 2_000), stop)
    if (stop.aborted) return
    fleet.start()
    twins?.start()
  }

  /** Freezes an instance, usually until after its locks have expired, and sometimes for a shorter time. */
  async #freezeAndThaw(victim: Member, stop: AbortSignal): Promise<void> {
    const expiries = this.#random.chance(0.75) ? this.#random.between(1.3, 2) : 0.2
    const twin = this.#options.twins?.find(victim.name)
    const frozenAt = performance.now()
    this.#listener.frozen(victim)
    victim.freeze()
    twin?.freeze()
    await pause(this.#options.expiryMs * expiries, stop)
    await Promise.all([victim.thaw(), twin?.thaw()])
    this.#listener.thawed(victim, performance.now() - frozenAt)
  }
}
