import type { Member } from './fleet.js'

/** One piece of work that goes on elsewhere. */
interface Takeover {
  readonly work: string
  readonly by: string
  /** From the kill or freeze to its begin there. */
  readonly afterMs: number
}

/** An instance that was killed or frozen in the middle of its works, and who has taken them over. */
export interface Loss {
  readonly victim: Member
  readonly how: 'killed' | 'frozen'
  readonly at: number
  readonly takeovers: Takeover[]
  /** What nobody has begun again. */
  readonly left: Set<string>
}

/** A job that nobody takes over by then is told of as such. */
const takeoverTimeoutMs = 20_000

/** Watches how long it takes until what a lost instance did runs elsewhere. */
export class Takeovers {
  readonly #losses = new Set<Loss>()
  readonly #onComplete: (loss: Loss) => void

  /** Calls back when all of it runs elsewhere, or it is not going to. */
  constructor(onComplete: (loss: Loss) => void) {
    this.#onComplete = onComplete
  }

  instanceLost(victim: Member, how: Loss['how']): void {
    if (victim.works.size === 0) return
    const loss: Loss = { victim, how, at: performance.now(), takeovers: [], left: new Set(victim.works) }
    this.#losses.add(loss)
    setTimeout(() => this.#complete(loss), takeoverTimeoutMs).unref()
  }

  /** True when this is the work of a lost instance that begins again. */
  workStarted(by: Member, work: string): boolean {
    let isTakeover = false
    for (const loss of this.#losses) {
      if (loss.victim === by || !loss.left.delete(work)) continue
      isTakeover = true
      loss.takeovers.push({ work, by: by.name, afterMs: performance.now() - loss.at })
      if (loss.left.size === 0) this.#complete(loss)
    }
    return isTakeover
  }

  /** The lost instance had just done it: its word was still under way. */
  workEnded(victim: Member, work: string): void {
    for (const loss of this.#losses) {
      if (loss.victim === victim && loss.left.delete(work) && loss.left.size === 0) this.#complete(loss)
    }
  }

  /** It works again: what nobody has taken over is its own. */
  instanceThawed(victim: Member): void {
    for (const loss of this.#losses) {
      if (loss.victim !== victim) continue
      loss.left.clear()
      this.#complete(loss)
    }
  }

  #complete(loss: Loss): void {
    if (this.#losses.delete(loss)) this.#onComplete(loss)
  }
}
