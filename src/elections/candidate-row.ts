import { type Database, lateEffectMs, type Presence, type Statement } from '../postgres/index.js'
import type { ElectionPoller, ElectionState } from './election-poller.js'

export type CandidateStatements = Record<'enroll' | 'withdraw', Statement>

interface CandidateRowContext {
  readonly database: Database
  readonly presence: Presence
  readonly namespace: string
  readonly poller: ElectionPoller
  readonly statements: CandidateStatements
}

/** Maximum time by which a write may delay the start or the end of a term. */
const writeTimeoutMs = 1_000
/**
 * This instance's row in the `candidate` table for one election. While the row exists, no instance leads that is not
 * preferred. A write can fail, and an insert can take effect after its response was lost. Therefore, each poll compares
 * the row with the wanted state and repeats the write. A row outlives its campaign until a poll no longer finds it.
 */
export class CandidateRow {
  readonly #name: string
  readonly #context: CandidateRowContext
  readonly #notification: readonly [channel: string, payload: string]
  #isWanted = false
  /** Writes that have not finished. A later write starts when the earlier writes have finished. */
  #writes = 0
  #writing: Promise<void> = Promise.resolve()
  /** Time of the last insert that received no response. */
  #unansweredAt = Number.NEGATIVE_INFINITY
  #unfollow: (() => void) | undefined

  constructor(name: string, context: CandidateRowContext, notification: readonly [channel: string, payload: string]) {
    this.#name = name
    this.#context = context
    this.#notification = notification
  }

  /** Inserts the row. If the write fails, the next poll repeats it. */
  enroll(): Promise<void> {
    this.#isWanted = true
    // The campaign reports errors of the poll.
    this.#unfollow ??= this.#context.poller.follow(this.#name, {
      onState: (state) => this.#onState(state),
      onError: () => {},
    })
    return this.#write()
  }

  /** Deletes the row. If the write fails, the next poll repeats it. */
  async withdraw(): Promise<void> {
    this.#isWanted = false
    if (this.#unfollow) await this.#write()
  }

  #onState({ isEnrolled }: ElectionState): void {
    if (this.#writes > 0) return
    if (isEnrolled !== this.#isWanted) void this.#write()
    else if (!isEnrolled && performance.now() - this.#unansweredAt > lateEffectMs) {
      this.#unfollow?.()
      this.#unfollow = undefined
    }
  }

  #write(): Promise<void> {
    this.#writes++
    this.#writing = this.#writing
      .then(() => (this.#isWanted ? this.#insert() : this.#delete()))
      .catch(() => {})
      .finally(() => this.#writes--)
    return this.#writing
  }

  async #insert(): Promise<void> {
    const { database, presence, statements, namespace } = this.#context
    const number = presence.epoch?.number
    if (number === undefined) return
    const before = this.#unansweredAt
    this.#unansweredAt = performance.now()
    const values = [namespace, this.#name, number, ...this.#notification]
    await database.query(statements.enroll.text, values, writeTimeoutMs)
    // An earlier insert can still be without a response.
    this.#unansweredAt = before
  }

  async #delete(): Promise<void> {
    const { database, presence, statements, namespace } = this.#context
    const number = presence.epoch?.number
    if (number === undefined) return
    await database.query(statements.withdraw.text, [namespace, this.#name, number], writeTimeoutMs)
  }
}
