import type { JobProgress, LogBuffer } from '../base/index.js'
import type { JobStore } from './store.js'

/** Marks an attempt whose progress or log lines have not been written to the database yet. */
export interface Notes {
  progress: JobProgress | undefined
}

interface NotedAttempt {
  readonly id: number
  readonly fence: number
  notes: Notes | undefined
  readonly logBuffer: LogBuffer | undefined
}

const flushAfterMs = 250

/**
 * Writes handlers' progress and log lines to the database in batches, after a short delay. Only people read this data.
 */
export class NoteTaker {
  readonly #store: JobStore
  readonly #noted = new Set<NotedAttempt>()
  /** Attempts whose notes are being written. */
  #writing: ReadonlySet<NotedAttempt> = new Set()
  /**
   * Resolves when the latest write has finished. Writes run one after the other, so that log lines keep their order.
   */
  #written: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined

  constructor(store: JobStore) {
    this.#store = store
  }

  /** Schedules the next write, which includes this attempt's notes. */
  soon(run: NotedAttempt): void {
    this.#noted.add(run)
    this.#timer ??= setTimeout(() => void this.#flush(), flushAfterMs)
  }

  /**
   * Resolves when the attempt's notes have been written. Returns undefined if no notes are pending. Notes must be
   * written before the outcome, because recording the outcome deletes the job's row.
   */
  whenWritten(run: NotedAttempt): Promise<void> | undefined {
    if (run.notes) return this.#flush()
    return this.#writing.has(run) ? this.#written : undefined
  }

  /** Resolves when all finished attempts' notes have been written. */
  settled(): Promise<void> {
    return this.#written
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #flush(): Promise<void> {
    this.close()
    // Ignores errors, because failing to write notes must not prevent an outcome from being recorded.
    this.#written = this.#written.then(() => this.#write()).catch(() => {})
    return this.#written
  }

  async #write(): Promise<void> {
    const noted = [...this.#noted].sort((a, b) => a.id - b.id)
    this.#noted.clear()
    if (noted.length === 0) return
    const asked = noted.map((run) => {
      const { progress } = run.notes!
      run.notes = undefined
      return { id: run.id, fence: run.fence, progress, lines: run.logBuffer?.take() }
    })
    this.#writing = new Set(noted)
    try {
      await this.#store.run('save_notes', [JSON.stringify(asked)])
    } finally {
      this.#writing = new Set()
    }
  }
}
