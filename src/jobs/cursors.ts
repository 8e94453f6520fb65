/** A queue and a priority. A worker has one cursor per level. */
export interface Level {
  readonly queue: string
  readonly priority: number
}

/** Position from which a claim reads. */
export type ScanStart = 'onward' | 'near' | 'far' | 'head'

export const highestPriority = 5
export const lowestPriority = -5

/** A job number, together with the condition under which no job can appear below it any more. */
interface Mark {
  /** Last number that had been assigned. */
  readonly last: number
  /** Transaction ID that is larger than the ID of every transaction that was assigned a number up to `last`. */
  readonly newest: bigint
}

/** Distance of the near look-back. Nearly every transaction is shorter. */
const nearMs = 1_000
const trailEveryMs = 200
const maxMarks = 200

/**
 * Remembers how far a worker has read in each level. A read from the head of the index would scan every dead entry that
 * vacuum could not remove yet. A job that commits late can have a number below the cursor. Look-backs find such jobs:
 *
 * - **near**, every 50 ms: reads from the position that the cursor had one second ago.
 * - **far**, every second: reads from the floor. No job can appear below the floor, because every transaction that
 *   could have been assigned a number below it has ended, and its jobs were read.
 * - **head**, every 30 seconds: reads from the start, to find jobs of a rolled-back claim that other workers' cursors
 *   have passed.
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

  /** Forgets all positions, because numbers from a different or restored server are not comparable. */
  reset(): void {
    this.#cursors = this.levels.map(() => 0)
    this.#floor = 0
    this.#marks = []
    this.#trail = []
  }

  /** Returns the start position of each level. */
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

  /** Moves the cursors to the positions up to which a claim has read. */
  advance(reached: readonly number[]): void {
    this.#cursors = this.#cursors.map((cursor, level) => Math.max(cursor, reached[level]!))
    const now = performance.now()
    if (now - (this.#trail.at(-1)?.at ?? 0) >= trailEveryMs) this.#trail.push({ at: now, cursors: this.#cursors })
  }

  /**
   * Raises the floor after a look-back that read everything above it. The new floor is the highest mark whose
   * transactions had all ended before the look-back.
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
    // A long transaction holds the floor back. In this case, half of the marks are enough.
    if (this.#marks.length >= maxMarks) this.#marks = this.#marks.filter((_, at) => at % 2 === 0)
    this.#marks.push({ last, newest })
  }
}
