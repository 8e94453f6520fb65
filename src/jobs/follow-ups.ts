import { backoffMs, pause } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobStore } from './store.js'

interface FollowUpsOptions {
  readonly store: JobStore
  /** Number of the epoch whose follow-ups to look up after a lost response. */
  readonly epoch: () => number | undefined
  /** Called when jobs became ready. */
  readonly onMoved: () => void
  /** Called with the time until more work is due. */
  readonly onDue: (ms: number) => void
}

const maxTries = 5
const maxPerStatement = 1_000
/** Session number of follow-ups that no live worker owns. */
const unownedSession = 0

/**
 * Runs follow-ups of ended jobs with links, and admits such jobs. This needs a statement of its own, because the
 * statement that ends or enqueues may belong to a long transaction. It runs right after that statement and combines
 * all pending work. If this process dies first, the maintenance of another instance does it.
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

  /** Adds follow-ups. The numbers are separated by commas. */
  add(numbers: string | null | undefined): void {
    if (!numbers) return
    this.#numbers.push(numbers)
    this.#start()
  }

  /** Adds waiting jobs that may be admitted. */
  admit(ids: readonly number[]): void {
    for (const id of ids) this.#ids.push(id)
    this.#start()
  }

  /** Looks for follow-ups of this epoch after a response was lost. */
  recheck(): void {
    this.#mustRecheck = true
    this.#start()
  }

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
      // Work may have arrived after the last check of the loop.
      if (this.#hasMore && !this.#closing.signal.aborted) this.#start()
    })
  }

  get #hasMore(): boolean {
    return this.#numbers.length + this.#ids.length > 0 || this.#mustRecheck || this.#hasUnowned
  }

  async #run(): Promise<void> {
    // Work of the same turn of the event loop joins this statement.
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
        // Maintenance admits these jobs anyway. But follow-ups of a live process are not found by other instances.
        if (failures < maxTries) this.#ids.push(...ids)
        await pause(backoffMs(failures, 20, 5_000), this.#closing.signal)
      }
    }
  }
}
