import { backoffMs, pause } from '../base/index.js'
import { arrayOf } from '../postgres/index.js'
import type { Ledger } from './ledger.js'

interface LooseEndsOptions {
  readonly ledger: Ledger
  /** The number of the life whose ends may have got lost. */
  readonly life: () => number | undefined
  /** Jobs may run now that could not before. */
  readonly onMoved: () => void
  /** So long from now something is due. */
  readonly onDue: (ms: number) => void
}

const mostTries = 5
const mostTogether = 1_000
/** Whose loose ends are those that nobody's life has left: what follows from what follows. */
const nobody = 0

/**
 * What follows for others from the ends of jobs with ties, and letting such jobs in. It is never done in the statement
 * that ends or enqueues: that may be part of a transaction which lasts. So it comes right after, in a statement of its own,
 * together with whatever else came meanwhile. If this process dies before, the rounds of others do it.
 */
export class LooseEnds {
  readonly #options: LooseEndsOptions
  readonly #closing = new AbortController()
  #numbers: string[] = []
  #ids: number[] = []
  #isUnsure = false
  #nobodyHasSome = false
  #running: Promise<void> | undefined

  constructor(options: LooseEndsOptions) {
    this.#options = options
  }

  /** As job_settle answered: numbers, separated by commas. */
  found(loose: string | null | undefined): void {
    if (!loose) return
    this.#numbers.push(loose)
    this.#start()
  }

  /** Jobs that wait, and may be let in. */
  entering(ids: readonly number[]): void {
    for (const id of ids) this.#ids.push(id)
    this.#start()
  }

  /** An answer got lost, which may have told of loose ends. */
  unsure(): void {
    this.#isUnsure = true
    this.#start()
  }

  /** Resolves when nothing is left to do. */
  async settled(): Promise<void> {
    while (this.#running) await this.#running
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      // What came when it had looked for the last time.
      if (this.#hasMore && !this.#closing.signal.aborted) this.#start()
    })
  }

  get #hasMore(): boolean {
    return this.#numbers.length + this.#ids.length > 0 || this.#isUnsure || this.#nobodyHasSome
  }

  async #run(): Promise<void> {
    // What comes in the same turn goes along.
    await new Promise((resolve) => setImmediate(resolve))
    for (let failures = 0; this.#hasMore; ) {
      if (this.#closing.signal.aborted) return
      const numbers = this.#numbers.splice(0, mostTogether)
      const ids = this.#ids.splice(0, mostTogether)
      const isUnsure = this.#isUnsure
      this.#isUnsure = false
      const life = isUnsure ? this.#options.life() : this.#nobodyHasSome ? nobody : undefined
      try {
        const [row] = await this.#options.ledger.run<{ moved: number; due_ms: number | null }>('tie_up', [
          arrayOf(numbers),
          arrayOf(ids),
          life ?? null,
        ])
        failures = 0
        if (row!.moved > 0) this.#options.onMoved()
        this.#nobodyHasSome = row!.due_ms === 0
        if (row!.due_ms) this.#options.onDue(row!.due_ms)
      } catch {
        failures++
        this.#numbers.push(...numbers)
        this.#isUnsure ||= isUnsure
        // The rounds let in what is left; what has ended may be found by nobody as long as this process lives.
        if (failures < mostTries) this.#ids.push(...ids)
        await pause(backoffMs(failures, 20, 5_000), this.#closing.signal)
      }
    }
  }
}
