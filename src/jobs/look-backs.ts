import type { ScanStart } from './cursors.js'

export type LookBack = Exclude<ScanStart, 'onward'>

export const nearEveryMs = 50
const farEveryMs = 1_000
const headEveryMs = 30_000
/** Minimum ratio of a look-back's interval to its duration. */
const lookShare = 20

/**
 * Schedules look-backs (see `Cursors`). Slow look-backs run less often, so that each kind of look-back uses at most 5 %
 * of the time.
 */
export class LookBacks {
  readonly #lookedAt = { near: 0, far: 0, head: 0 }
  readonly #cost = { near: 0, far: 0, head: 0 }
  #isUnderWay = false

  /** Returns the look-back that is due in a busy worker. Undefined if no look-back is due. */
  due(): LookBack | undefined {
    if (this.#isUnderWay) return undefined
    const now = performance.now()
    const every = { near: nearEveryMs * 0.9, far: farEveryMs, head: headEveryMs }
    return (['head', 'far', 'near'] as const).find(
      (reach) => now - this.#lookedAt[reach] >= Math.max(every[reach], this.#cost[reach] * lookShare),
    )
  }

  async run<T>(reach: LookBack, look: () => Promise<T>): Promise<T> {
    const from = performance.now()
    this.#isUnderWay = true
    try {
      return await look()
    } finally {
      this.#isUnderWay = false
      this.#lookedAt[reach] = performance.now()
      this.#cost[reach] = performance.now() - from
    }
  }

  /**
   * Kind of look-back for the next poll of an idle worker. An idle worker runs `head` look-backs as often as a busy
   * worker does.
   */
  get whileIdle(): 'far' | 'head' {
    return performance.now() - this.#lookedAt.head >= headEveryMs ? 'head' : 'far'
  }

  /** Records a poll by an idle worker. */
  onIdleScan(reach: 'far' | 'head'): void {
    if (reach === 'head') this.#lookedAt.head = performance.now()
  }
}
