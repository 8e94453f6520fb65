import type { Member } from './fleet.js'

/** A lost instance's work item that a different instance has restarted. */
interface Takeover {
  readonly work: string
  readonly by: string
  /** Time from the kill or freeze until the work was started again. */
  readonly afterMs: number
}

/** An instance that was killed or frozen during its work, and the instances that took over this work. */
export interface Loss {
  readonly victim: Member
  readonly how: 'killed' | 'frozen'
  readonly at: number
  /** Work that the instance was doing. */
  readonly works: readonly string[]
  readonly takeovers: Takeover[]
  /** Work that no other instance has restarted. */
  readonly left: Set<string>
}

/** Time after which the demo reports work that no instance has taken over. */
const takeoverTimeoutMs = 20_000

/** Measures the time until other instances continue a lost instance's work. */
export class Takeovers {
  readonly #losses = new Set<Loss>()
  readonly #onComplete: (loss: Loss) => void

  /**
   * Calls `onComplete` when all of a lost instance's work has been taken over, or when no takeover is expected any
   * longer. If the instance was idle, calls `onComplete` immediately.
   */
  constructor(onComplete: (loss: Loss) => void) {
    this.#onComplete = onComplete
  }

  instanceLost(victim: Member, how: Loss['how']): void {
    const works = [...victim.works]
    const loss: Loss = { victim, how, at: performance.now(), works, takeovers: [], left: new Set(works) }
    this.#losses.add(loss)
    if (works.length === 0) this.#complete(loss)
    else setTimeout(() => this.#complete(loss), takeoverTimeoutMs).unref()
  }

  /** Returns true if the work belonged to a lost instance. */
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

  /** Handles a message that arrived after its instance was lost: the instance had already finished the work. */
  workEnded(victim: Member, work: string): void {
    for (const loss of this.#losses) {
      if (loss.victim === victim && loss.left.delete(work) && loss.left.size === 0) this.#complete(loss)
    }
  }

  /**
   * Handles the end of a freeze: the instance is running again and keeps the work that no other instance has taken
   * over.
   */
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
