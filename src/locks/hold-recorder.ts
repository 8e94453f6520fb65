import { Poller } from '../base/index.js'
import type { Anchor, Statement } from '../postgres/index.js'
import type { Arbiter } from './arbiter.js'
import type { Hold } from './hold.js'

export type HoldRecorderStatements = Record<'record_holds' | 'delete_holds', Statement>

const everyMs = 1_000
const longHoldMs = 3_000

/** Records holds that last longer than 3 s in the `hold` table, for display. Shorter holds cause no statement. */
export class HoldRecorder {
  readonly #recorded = new Set<Hold>()
  readonly #poller = new Poller({
    isNeeded: () => this.#hasWork(),
    poll: () => this.#write(),
    pauseMs: () => everyMs,
    pausesFirst: true,
  })

  constructor(
    readonly anchor: Anchor,
    readonly arbiter: Arbiter,
    readonly statements: HoldRecorderStatements,
  ) {}

  /** Starts the poller, which runs while there is a hold, a waiting request or a recorded row. */
  wake(): void {
    this.#poller.start()
  }

  async close(): Promise<void> {
    void this.#poller.close()
    if (this.#hasWork()) await this.#write().catch(() => {})
  }

  #hasWork(): boolean {
    const hold = this.arbiter.holds()[Symbol.iterator]().next().value
    const wait = this.arbiter.waitingRequests()[Symbol.iterator]().next().value
    return hold !== undefined || wait !== undefined || this.#recorded.size > 0
  }

  async #write(): Promise<void> {
    const { session } = this.anchor
    if (!session) return
    const now = performance.now()
    const present = new Set([...this.arbiter.holds()].filter((hold) => now - hold.grantedAt > longHoldMs))
    const gone = [...this.#recorded].filter((hold) => !present.has(hold))
    const fresh = [...present].filter((hold) => !this.#recorded.has(hold))
    // Rows are deleted first, because a session that acquires the same key again uses the same row.
    if (gone.length > 0) {
      await session.run(this.statements.delete_holds, [gone.map(sessionOf), gone.map(keyOf)])
      for (const hold of gone) this.#recorded.delete(hold)
    }
    if (fresh.length > 0) {
      const modes = fresh.map(({ mode }) => mode)
      const fences = fresh.map(({ fence }) => fence)
      const ages = fresh.map(({ grantedAt }) => now - grantedAt)
      await session.run(this.statements.record_holds, [fresh.map(sessionOf), fresh.map(keyOf), modes, fences, ages])
      for (const hold of fresh) this.#recorded.add(hold)
    }
  }
}

const sessionOf = (hold: Hold) => hold.batcher.session.number
const keyOf = ({ key }: Hold) => key.key
