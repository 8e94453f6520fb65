import type { ScanStart } from './cursors.js'

export type LookBack = Exclude<ScanStart, 'onward'>

export const nearEveryMs = 50
const farEveryMs = 1_000
const headEveryMs = 30_000
/** A look back may take this part of the time. */
const lookShare = 20

/** When to look back, and how far (see `Cursors`): the farther, the more rarely, and each at most for a small part of the time. */
export class LookBacks {
  readonly #lookedAt = { near: 0, far: 0, head: 0 }
  readonly #cost = { near: 0, far: 0, head: 0 }
  #isUnderWay = false

  /** The look that is due for one who reads on, if one is. */
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

  /** How far one looks who has nothing else to do: from the head as often as others. */
  get whileIdle(): 'far' | 'head' {
    return performance.now() - this.#lookedAt.head >= headEveryMs ? 'head' : 'far'
  }

  /** One who has nothing else to do has looked. */
  onIdleScan(reach: 'far' | 'head'): void {
    if (reach === 'head') this.#lookedAt.head = performance.now()
  }
}
