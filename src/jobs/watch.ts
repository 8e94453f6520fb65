// Watches jobs: one statement at a time for all jobs that this instance watches.
import { isRetryable, pause } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobStore } from './store.js'

const pollEveryMs = 200

interface WatchedRow {
  readonly id: string
  readonly digest: string
}

interface Waiter {
  readonly id: number
  /** Digest that the watcher has seen. Undefined at the start. */
  readonly seen: string | undefined
  /** Number of polls that have not found the job. */
  misses: number
  readonly resolve: (digest: string | null) => void
  readonly reject: (error: unknown) => void
}

/** Waits for job changes. Runs no statement while no call is waiting. */
export class JobWatches {
  readonly #store: JobStore
  readonly #waiting = new Set<Waiter>()
  #polling: Promise<void> | undefined

  constructor(store: JobStore) {
    this.#store = store
  }

  /**
   * Resolves with a digest that differs from `seen` as soon as a poll finds one. Resolves with null if the job does not
   * exist. Rejects with the signal's reason.
   */
  next(id: number, seen: string | undefined, signal: AbortSignal): Promise<string | null> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const settle = () => {
        this.#waiting.delete(waiter)
        signal.removeEventListener('abort', onAbort)
      }
      const onAbort = () => {
        settle()
        reject(signal.reason)
      }
      const waiter: Waiter = {
        id,
        seen,
        misses: 0,
        resolve: (digest) => {
          settle()
          resolve(digest)
        },
        reject: (error) => {
          settle()
          reject(error)
        },
      }
      signal.addEventListener('abort', onAbort)
      this.#waiting.add(waiter)
      this.#polling ??= this.#poll()
    })
  }

  async #poll(): Promise<void> {
    // The first poll contains all calls of this turn of the event loop.
    await null
    while (this.#waiting.size > 0) {
      const asked = [...this.#waiting]
      try {
        const ids = [...new Set(asked.map(({ id }) => id))]
        const rows = await this.#store.run<WatchedRow>('watched', [arrayLiteral(ids)])
        const digests = new Map(rows.map(({ id, digest }) => [Number(id), digest]))
        for (const waiter of asked) {
          const digest = digests.get(waiter.id)
          // A job that moves between tables during the statement can be missing from a single poll.
          if (digest === undefined && ++waiter.misses >= 2) waiter.resolve(null)
          else if (digest !== undefined && digest !== waiter.seen) waiter.resolve(digest)
        }
      } catch (error) {
        if (!isRetryable(error)) for (const waiter of asked) waiter.reject(error)
      }
      if (this.#waiting.size > 0) await pause(pollEveryMs)
    }
    this.#polling = undefined
  }
}
