/** Combination of a queue and a priority. A worker has one cursor per level. */
export interface Level {
  readonly queue: string
  readonly priority: number
}

/** Start position of a claim's read. */
export type ScanStart = 'onward' | 'near' | 'far' | 'head'

export const highestPriority = 5
export const lowestPriority = -5

/** Job number, together with the condition under which no new job with a smaller number can appear. */
interface Mark {
  /** Last job number that had been assigned. */
  readonly last: number
  /** Transaction ID above the IDs of all transactions that had received a job number up to `last`. */
  readonly newest: bigint
}

/** Time that the near look-back goes back. Nearly all transactions are shorter. */
const nearMs = 1_000
const trailEveryMs = 200
const maxMarks = 200

/**
 * Stores how far a worker has read in each level, so that a claim need not scan the dead entries at the start of the
 * index that vacuum has not removed yet. A job that is committed late can have a number below the cursor. Look-backs
 * find such jobs:
 *
 * - **near**, every 50 ms: reads from the position that the cursor had one second ago.
 * - **far**, every second: reads from the lower bound (`#floor`). No job can appear below this bound, because all
 *   transactions that could have received a smaller number have ended, and their jobs have been read.
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

  /** Resets all positions, because job numbers from a different or restored server are not comparable. */
  reset(): void {
    this.#cursors = this.levels.map(() => 0)
    this.#floor = 0
    this.#marks = []
    this.#trail = []
  }

  /** Returns the position in each level from which to read. */
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

  /** Advances the cursors to the positions up to which a claim has read. */
  advance(reached: readonly number[]): void {
    this.#cursors = this.#cursors.map((cursor, level) => Math.max(cursor, reached[level]!))
    const now = performance.now()
    if (now - (this.#trail.at(-1)?.at ?? 0) >= trailEveryMs) this.#trail.push({ at: now, cursors: this.#cursors })
  }

  /**
   * Raises the lower bound after a look-back that has read everything above this bound. The new bound is the highest
   * mark whose transactions had all ended before the look-back.
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
    // Drops every second mark if there are too many. This happens while a long transaction prevents the lower bound
    // from rising.
    if (this.#marks.length >= maxMarks) this.#marks = this.#marks.filter((_, at) => at % 2 === 0)
    this.#marks.push({ last, newest })
  }
}
