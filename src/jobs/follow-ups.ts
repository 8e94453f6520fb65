import { backoffMs, pause } from '../base/index.js'
import { arrayLiteral, type Presence } from '../postgres/index.js'
import type { Maintenance } from './maintenance.js'
import type { JobStore } from './store.js'

const maxTries = 5
const maxPerStatement = 1_000
/** Time for which follow-ups that are not urgent are collected. */
const collectMs = 200
/** Pause after a statement that has left follow-ups and has made no job ready. */
const lockedMs = 20
/** Session number of follow-ups that no live worker owns. */
const unownedSession = 0

/**
 * Runs the follow-ups for finished jobs, and admits new jobs that have links. This work needs a separate statement,
 * because the statement that ends or enqueues a job may belong to a long transaction. The separate statement runs
 * immediately afterwards and combines all pending work. If this process dies first, another instance's maintenance does
 * this work.
 */
export class FollowUps {
  readonly #store: JobStore
  readonly #presence: Presence
  readonly #maintenance: Maintenance
  readonly #onReady: () => void
  readonly #closing = new AbortController()
  #numbers: string[] = []
  /** Follow-ups that are not urgent. The timer, or the next statement, runs them. */
  #collected: string[] = []
  #timer: NodeJS.Timeout | undefined
  #ids: number[] = []
  #mustRecheck = false
  #hasUnowned = false
  #admitting = 0
  #running: Promise<void> | undefined

  /** `onReady` is called when jobs have become ready. */
  constructor(store: JobStore, presence: Presence, maintenance: Maintenance, onReady: () => void) {
    this.#store = store
    this.#presence = presence
    this.#maintenance = maintenance
    this.#onReady = onReady
  }

  /** Adds follow-ups. Their numbers are separated by commas. Follow-ups that are not urgent run together a little later. */
  add(numbers: string | null | undefined, isUrgent = true): void {
    if (!numbers) return
    this.#collected.push(numbers)
    if (isUrgent) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), collectMs)
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#collected.length === 0) return
    this.#numbers.push(...this.#collected.splice(0))
    this.#start()
  }

  /** Adds waiting jobs that can be admitted if their conditions are met. */
  admit(ids: readonly number[]): void {
    for (const id of ids) this.#ids.push(id)
    // These jobs may need the room that the collected follow-ups return.
    this.#flush()
    this.#start()
  }

  /** Whether a statement that admits new jobs is pending or running. */
  get isAdmitting(): boolean {
    return this.#ids.length + this.#admitting > 0
  }

  /** Looks up this epoch's follow-ups in the database, because a response was lost. */
  recheck(): void {
    this.#mustRecheck = true
    this.#start()
  }

  async settled(): Promise<void> {
    this.#flush()
    while (this.#running) await this.#running
  }

  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#timer)
    await this.#running
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      // Checks again, because more work may have been added after the loop's last check.
      if (this.#hasMore && !this.#closing.signal.aborted) this.#start()
    })
  }

  get #hasMore(): boolean {
    return this.#numbers.length + this.#ids.length > 0 || this.#mustRecheck || this.#hasUnowned
  }

  async #run(): Promise<void> {
    // Waits, so that work from the same turn of the event loop is combined into one statement.
    await new Promise((resolve) => setImmediate(resolve))
    for (let failures = 0; this.#hasMore; ) {
      if (this.#closing.signal.aborted) return
      const numbers = this.#numbers.splice(0, maxPerStatement)
      const ids = this.#ids.splice(0, maxPerStatement)
      this.#admitting = ids.length
      const isUnsure = this.#mustRecheck
      this.#mustRecheck = false
      const epoch = isUnsure ? this.#presence.epoch?.number : this.#hasUnowned ? unownedSession : undefined
      try {
        const [row] = await this.#store.run<{ moved: number; due_ms: number | null }>('run_follow_ups', [
          arrayLiteral(numbers),
          arrayLiteral(ids),
          epoch ?? null,
        ])
        failures = 0
        if (row!.moved > 0) this.#onReady()
        this.#hasUnowned = row!.due_ms === 0
        if (row!.due_ms) this.#maintenance.runIfStarted(row!.due_ms)
        // A transaction may have locked the jobs that these follow-ups would change.
        if (this.#hasUnowned && row!.moved === 0) await pause(lockedMs, this.#closing.signal)
      } catch {
        failures++
        this.#numbers.push(...numbers)
        this.#mustRecheck ||= isUnsure
        // After several failures, this loop stops trying to admit the jobs, because maintenance also admits them. The
        // follow-ups are kept, because other instances do not look for a live process's follow-ups. The jobs go to the front, so that
        // they keep the order of their lane.
        if (failures < maxTries) this.#ids.unshift(...ids)
        await pause(backoffMs(failures, 20, 5_000), this.#closing.signal)
      }
      this.#admitting = 0
    }
  }
}
