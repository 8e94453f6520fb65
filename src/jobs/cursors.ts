/** Where the worker reads: one queue, one priority. */
export interface Level {
  readonly queue: string
  readonly priority: number
}

/** From where a claim reads. */
export type ScanStart = 'onward' | 'near' | 'far' | 'head'

export const highestPriority = 5
export const lowestPriority = -5

/** A point in the order, and when it becomes certain that nothing can appear below it any more. */
interface Mark {
  /** All numbers up to this one had been drawn. */
  readonly last: number
  /** Whoever drew them has a transaction id below this one. */
  readonly newest: bigint
}

/** How far back the near look goes. Nearly every transaction is shorter. */
const nearMs = 1_000
const trailEveryMs = 200
const maxMarks = 200

/**
 * How far a worker has read, in each level. Reading from the head of the index would walk over every dead entry that vacuum
 * could not yet remove; so it reads on from where it was. What commits late, with a lower number, is found by looking back:
 *
 * - **near**, every few tens of ms: from where the cursor was a second ago.
 * - **far**, every second: from the floor. Below the floor nothing can appear any more, because every transaction
 *   that could have drawn a number there is over and what it left was looked at.
 * - **head**, every half minute: from the beginning, for claims that were rolled back after others had passed over them.
 */
export class Cursors {
  readonly levels: readonly Level[]
  #cursors: number[]
  #floor = 0
  #marks: Mark[] = []
  #trail: { readonly at: number; readonly cursors: readonly number[] }[] = []

  constructor(queues: readonly string[]) {
    const priorities = Array.from(
      { length: highestPriority - lowestPriority + 1 },
      (_, below) => highestPriority - below,
    )
    this.levels = priorities.flatMap((priority) => queues.map((queue) => ({ queue, priority })))
    this.#cursors = this.levels.map(() => 0)
  }

  /** Forgets everything: the numbers of another server, or of one that was restored, mean something else. */
  reset(): void {
    this.#cursors = this.levels.map(() => 0)
    this.#floor = 0
    this.#marks = []
    this.#trail = []
  }

  /** From where each level is read. */
  starts(reach: ScanStart): number[] {
    if (reach === 'head') return this.levels.map(() => 0)
    if (reach === 'far') return this.levels.map(() => this.#floor)
    if (reach === 'onward') return this.#cursors.map((cursor) => Math.max(cursor, this.#floor))
    const before = performance.now() - nearMs
    while (this.#trail.length > 1 && this.#trail[1]!.at <= before) this.#trail.shift()
    const then = this.#trail[0]
    if (!then || then.at > before) return this.levels.map(() => this.#floor)
    return then.cursors.map((cursor) => Math.max(cursor, this.#floor))
  }

  /** A claim has read each level so far. */
  advance(reached: readonly number[]): void {
    this.#cursors = this.#cursors.map((cursor, level) => Math.max(cursor, reached[level]!))
    const now = performance.now()
    if (now - (this.#trail.at(-1)?.at ?? 0) >= trailEveryMs) this.#trail.push({ at: now, cursors: this.#cursors })
  }

  /**
   * A look back has read everything from the floor on: the floor rises to the highest mark all of whose transactions were
   * over before it.
   */
  raiseFloor(from: readonly number[], oldest: bigint): void {
    if (from.some((start) => start > this.#floor)) return
    let risen = 0
    while (risen < this.#marks.length && this.#marks[risen]!.newest <= oldest) risen++
    if (risen === 0) return
    this.#floor = Math.max(this.#floor, this.#marks[risen - 1]!.last)
    this.#marks.splice(0, risen)
  }

  mark(last: number, newest: bigint): void {
    const latest = this.#marks.at(-1)
    if (last <= (latest?.last ?? this.#floor)) return
    // While a long transaction keeps the floor down, fewer of them will do.
    if (this.#marks.length >= maxMarks) this.#marks = this.#marks.filter((_, at) => at % 2 === 0)
    this.#marks.push({ last, newest })
  }
}
