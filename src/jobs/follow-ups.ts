import { backoffMs, pause } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobStore } from './store.js'

interface FollowUpsOptions {
  readonly store: JobStore
  /** The number of the epoch whose ends may have got lost. */
  readonly epoch: () => number | undefined
  /** Jobs may run now that could not before. */
  readonly onMoved: () => void
  /** So long from now something is due. */
  readonly onDue: (ms: number) => void
}

const maxTries = 5
const maxPerStatement = 1_000
/** Whose follow-ups are those that nobody's epoch has left: what follows from what follows. */
const unownedSession = 0

/**
 * What follows for others from the ends of jobs with links, and letting such jobs in. It is never done in the statement
 * that ends or enqueues: that may be part of a transaction which lasts. So it comes right after, in a statement of its own,
 * together with whatever else came meanwhile. If this process dies before, the maintenance of another instance does it.
 */
export class FollowUps {
  readonly #options: FollowUpsOptions
  readonly #closing = new AbortController()
  #numbers: string[] = []
  #ids: number[] = []
  #mustRecheck = false
  #hasUnowned = false
  #running: Promise<void> | undefined

  constructor(options: FollowUpsOptions) {
    this.#options = options
  }

  /** As job_release_links answered: numbers, separated by commas. */
  add(numbers: string | null | undefined): void {
    if (!numbers) return
    this.#numbers.push(numbers)
    this.#start()
  }

  /** Jobs that wait, and may be let in. */
  admit(ids: readonly number[]): void {
    for (const id of ids) this.#ids.push(id)
    this.#start()
  }

  /** An answer got lost, which may have told of follow-ups. */
  recheck(): void {
    this.#mustRecheck = true
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
    return this.#numbers.length + this.#ids.length > 0 || this.#mustRecheck || this.#hasUnowned
  }

  async #run(): Promise<void> {
    // What comes in the same turn goes along.
    await new Promise((resolve) => setImmediate(resolve))
    for (let failures = 0; this.#hasMore; ) {
      if (this.#closing.signal.aborted) return
      const numbers = this.#numbers.splice(0, maxPerStatement)
      const ids = this.#ids.splice(0, maxPerStatement)
      const isUnsure = this.#mustRecheck
      this.#mustRecheck = false
      const epoch = isUnsure ? this.#options.epoch() : this.#hasUnowned ? unownedSession : undefined
      try {
        const [row] = await this.#options.store.run<{ moved: number; due_ms: number | null }>('run_follow_ups', [
          arrayLiteral(numbers),
          arrayLiteral(ids),
          epoch ?? null,
        ])
        failures = 0
        if (row!.moved > 0) this.#options.onMoved()
        this.#hasUnowned = row!.due_ms === 0
        if (row!.due_ms) this.#options.onDue(row!.due_ms)
      } catch {
        failures++
        this.#numbers.push(...numbers)
        this.#mustRecheck ||= isUnsure
        // The maintenance lets in what is left; what has ended may be found by nobody as long as this process lives.
        if (failures < maxTries) this.#ids.push(...ids)
        await pause(backoffMs(failures, 20, 5_000), this.#closing.signal)
      }
    }
  }
}
