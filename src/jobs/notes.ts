import type { Claims } from './claims.js'
import type { Run } from './run.js'
import type { JobStore } from './store.js'

const flushAfterMs = 250
const maxLines = 100

/** Writes down what handlers say of their progress, soon after they said it, and many together. It is for people to read only. */
export class NoteTaker {
  readonly #store: JobStore
  readonly #claims: Claims
  readonly #noted = new Set<Run>()
  /** Those whose notes the statement writes that is under way. */
  #writing: ReadonlySet<Run> = new Set()
  /** When the last of the statements is over. One goes after the other, so that lines stay in their order. */
  #written: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined

  constructor(store: JobStore, claims: Claims) {
    this.#store = store
    this.#claims = claims
  }

  /** This one has said something. */
  soon(run: Run): void {
    this.#noted.add(run)
    this.#timer ??= setTimeout(() => void this.#flush(), flushAfterMs)
  }

  /** Resolves when all that this one has said is written down, whose row its end removes; undefined when it is already. */
  whenWritten(run: Run): Promise<void> | undefined {
    if (run.notes) return this.#flush()
    return this.#writing.has(run) ? this.#written : undefined
  }

  /** Resolves when nothing is left to write of those that are over. */
  settled(): Promise<void> {
    return this.#written
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #flush(): Promise<void> {
    this.close()
    // What only people read must not keep an end from being recorded, whatever goes wrong.
    this.#written = this.#written.then(() => this.#write()).catch(() => {})
    return this.#written
  }

  async #write(): Promise<void> {
    const noted = [...this.#noted].sort((a, b) => a.id - b.id)
    this.#noted.clear()
    if (noted.length === 0) return
    const asked = noted.map((run) => {
      const { progress, lines } = run.notes!
      run.notes = undefined
      return {
        id: run.id,
        fence: run.fence,
        seq: this.#claims.seqOf(run.job),
        progress,
        ...(lines.length > 0 ? { lines: lines.slice(-maxLines) } : {}),
      }
    })
    this.#writing = new Set(noted)
    try {
      await this.#store.run('save_notes', [JSON.stringify(asked)])
    } finally {
      this.#writing = new Set()
    }
  }
}
