import { Batcher, backoffMs, isRetryable, pause } from '../base/index.js'
import { type Database, type Presence, responseTimeoutMs, type Statement, Sweeper } from '../postgres/index.js'
import type { OwnedResource } from './owned-resource.js'

export type ShareStoreStatements = Record<'read_done' | 'record_done' | 'sweep_done', Statement>

export interface ShareStoreOptions {
  readonly database: Database
  readonly presence: Presence
  readonly statements: ShareStoreStatements
  readonly namespace: string
}

export interface Round {
  readonly share: string
  /** Name of the round. Empty if the caller passed no name. */
  readonly name: string
  /** Value of the `window` option for a round without a name. */
  readonly windowMs: number | null
}

export interface DoneResources {
  /** Time of the read according to the database's clock, in seconds since 1970. */
  readonly now: number
  readonly done: ReadonlySet<string>
}

interface DoneEntry {
  readonly round: Round
  readonly resource: string
  readonly session: number
  readonly fence: number
  readonly startedAt: number
}

const retainMs = 7 * 86_400_000
const sweepEveryMs = 600_000
const maxSwept = 5_000

/** Reads and writes `share_done`. This table determines which resources a round still has to process. */
export class ShareStore {
  readonly #options: ShareStoreOptions
  readonly #entries = new Batcher<DoneEntry, boolean>((entries) => this.#recordAll(entries))
  readonly #sweeper = new Sweeper({ everyMs: sweepEveryMs, sweep: () => this.#sweep() })

  constructor(options: ShareStoreOptions) {
    this.#options = options
  }

  /** Returns the resources that are done for a call that began at `calledAt`, or that begins now. */
  async readDone(round: Round, resources: readonly string[], calledAt: number | null): Promise<DoneResources> {
    const { database, statements, namespace } = this.#options
    const values = [namespace, round.share, round.name, resources, round.windowMs, calledAt]
    const [row] = await database.query<{ now: number; done: string[] }>(
      statements.read_done.text,
      values,
      responseTimeoutMs,
    )
    return { now: Number(row!.now), done: new Set(row!.done) }
  }

  /** Records a resource as done. Returns false if this instance no longer holds the resource. */
  async record(round: Round, owned: OwnedResource, session: number, startedAt: number): Promise<boolean> {
    const entry = { round, resource: owned.resource, session, fence: owned.fence, startedAt }
    for (let attempt = 0; ; attempt++) {
      if (!owned.held) return false
      try {
        return await this.#entries.add(entry)
      } catch (error) {
        if (!isRetryable(error)) throw error
        await pause(backoffMs(attempt, 25, 1_000))
      }
    }
  }

  sweepSometimes(): void {
    this.#sweeper.sweepIfDue()
  }

  async #sweep(): Promise<boolean> {
    const { database, statements } = this.#options
    const values = [retainMs, maxSwept]
    const [row] = await database.query<{ removed: number }>(statements.sweep_done.text, values, responseTimeoutMs)
    return row!.removed === maxSwept
  }

  async #recordAll(entries: readonly DoneEntry[]): Promise<boolean[]> {
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
        entries.map(({ startedAt }) => startedAt),
      ],
      responseTimeoutMs,
    )
    // Each grant has its own fencing token, so the token identifies the entry.
    const recorded = new Set(rows.map(({ fence }) => fence))
    return entries.map(({ fence }) => recorded.has(String(fence)))
  }
}
