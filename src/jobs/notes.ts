import type { Claims } from './claims.js'
import type { Ledger } from './ledger.js'
import type { Run } from './run.js'

/** What a handler said since it was last written down. */
export interface Notes {
  progress: number | undefined
  lines: string[]
}

const flushAfterMs = 250
const mostLines = 100

/** Writes down what handlers say of their progress, soon after they said it, and many together. It is for people to read only. */
export class NoteTaker {
  readonly #ledger: Ledger
  readonly #claims: Claims
  readonly #noted = new Set<Run>()
  #timer: NodeJS.Timeout | undefined

  constructor(ledger: Ledger, claims: Claims) {
    this.#ledger = ledger
    this.#claims = claims
  }

  /** This one has said something. */
  soon(run: Run): void {
    this.#noted.add(run)
    this.#timer ??= setTimeout(() => void this.flush(), flushAfterMs)
  }

  async flush(): Promise<void> {
    this.close()
    const noted = [...this.#noted].sort((a, b) => a.id - b.id)
    this.#noted.clear()
    if (noted.length === 0) return
    const asked = noted.map((run) => {
      const { progress, lines } = run.notes!
      run.notes = undefined
      return {
        id: run.id,
        fence: run.fence,
        seq: this.#claims.placeOf(run.job),
        progress,
        ...(lines.length > 0 ? { lines: lines.slice(-mostLines) } : {}),
      }
    })
    // Nothing waits for it to succeed.
    await this.#ledger.run('note', [JSON.stringify(asked)]).catch(() => {})
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
