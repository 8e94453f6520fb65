import { backoffMs, Gather, isRetryable, pause } from '../base/index.js'
import { answerWithinMs, type Database, type Presence, type Statement, Sweeper } from '../postgres/index.js'
import type { Owned } from './owned.js'

export type LedgerStatements = Record<'look_done' | 'record_done' | 'sweep_done', Statement>

export interface LedgerOptions {
  readonly database: Database
  readonly presence: Presence
  readonly statements: LedgerStatements
  readonly namespace: string
}

/** One round of one share. */
export interface Round {
  readonly share: string
  /** Empty when its caller did not name it. */
  readonly name: string
  /** Without a name: how long before a call the work may have begun that counts for it. */
  readonly holdMs: number | null
}

export interface Look {
  /** When it was looked, by the clock of the database, in seconds since 1970. */
  readonly now: number
  readonly done: ReadonlySet<string>
}

interface Entry {
  readonly round: Round
  readonly resource: string
  readonly session: number
  readonly fence: number
  readonly beganAt: number
}

const retentionMs = 7 * 86_400_000
const sweepEveryMs = 600_000
const sweptAtOnce = 5_000

/** What was worked on, in the table `share_done`: the authority on what a round still has to do. */
export class Ledger {
  readonly #options: LedgerOptions
  readonly #entries = new Gather<Entry, boolean>((entries) => this.#recordAll(entries))
  /** Rounds of the past must not pile up. */
  readonly #sweeper = new Sweeper({ everyMs: sweepEveryMs, sweep: () => this.#sweep() })

  constructor(options: LedgerOptions) {
    this.#options = options
  }

  /** Which of the resources count as done for a call that began at `calledAt`, or begins now. */
  async look(round: Round, resources: readonly string[], calledAt: number | null): Promise<Look> {
    const { database, statements, namespace } = this.#options
    const values = [namespace, round.share, round.name, resources, round.holdMs, calledAt]
    const [row] = await database.query<{ now: number; done: string[] }>(
      statements.look_done.text,
      values,
      answerWithinMs,
    )
    return { now: Number(row!.now), done: new Set(row!.done) }
  }

  /** Records that the work is done, if it is still ours to say so. False when it is not. */
  async record(round: Round, owned: Owned, session: number, beganAt: number): Promise<boolean> {
    const entry = { round, resource: owned.resource, session, fence: owned.fence, beganAt }
    for (let attempt = 0; ; attempt++) {
      if (!owned.held) return false
      try {
        return await this.#entries.ask(entry)
      } catch (error) {
        if (!isRetryable(error)) throw error
        await pause(backoffMs(attempt, 25, 1_000))
      }
    }
  }

  sweepSometimes(): void {
    this.#sweeper.sometimes()
  }

  async #sweep(): Promise<boolean> {
    const { database, statements } = this.#options
    const values = [retentionMs, sweptAtOnce]
    const [row] = await database.query<{ removed: number }>(statements.sweep_done.text, values, answerWithinMs)
    return row!.removed === sweptAtOnce
  }

  async #recordAll(entries: readonly Entry[]): Promise<boolean[]> {
    const { database, presence, statements, namespace } = this.#options
    const rows = await database.query<{ fence: string }>(
      statements.record_done.text,
      [
        namespace,
        presence.instanceId,
        entries.map(({ round }) => round.share),
        entries.map(({ round }) => round.name),
        entries.map(({ resource }) => resource),
        entries.map(({ session }) => session),
        entries.map(({ fence }) => fence),
        entries.map(({ beganAt }) => beganAt),
      ],
      answerWithinMs,
    )
    // A fence belongs to one grant, so it tells the entries apart.
    const recorded = new Set(rows.map(({ fence }) => fence))
    return entries.map(({ fence }) => recorded.has(String(fence)))
  }
}
