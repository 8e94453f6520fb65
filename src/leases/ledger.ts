import { Gather, type Key } from '../base/index.js'
import {
  answerWithinMs,
  type Database,
  despiteCollisions,
  loadStatements,
  type Names,
  Sweeper,
} from '../postgres/index.js'
import { idOf } from './renewals.js'

export interface LedgerOptions {
  readonly database: Database
  readonly names: Names
  readonly schema: string
  readonly instanceId: string
}

export interface Ask {
  readonly key: Key
  readonly token: string
  readonly ttlMs: number
  readonly holdMs: number
  /** Whether the caller gave the token, so that others may know it. */
  readonly isShared: boolean
}

export interface Answer {
  readonly settled: boolean
  /** Null when somebody else has it. */
  readonly fence: number | null
  /** Whether it was granted by this ask; else the token had it before, and somebody else may rely on that. */
  readonly isFresh: boolean
  readonly freeInMs: number | null
  readonly wanted: boolean
  readonly sentAt: number
}

export interface Release {
  readonly key: string
  readonly token: string
  /** Null where it is not known: then whatever the token has. */
  readonly fence: number | null
}

type Name = 'acquire' | 'want' | 'renew_leases' | 'release' | 'sweep' | 'guard'

const sweepEveryMs = 600_000
const sweptAtOnce = 1_000

/** The rows of leases, asked in batches: all that is asked for in one turn of the event loop is one statement. */
export class Ledger {
  readonly sql
  readonly #options: LedgerOptions
  readonly #acquisitions = new Gather<Ask, Answer>((asks) => this.#acquireAll(asks))
  readonly #releases = new Gather<Release, boolean>((asks) => this.#releaseAll(asks))
  readonly #wants = new Gather<string, void>((keys) => this.#wantAll(keys))
  readonly #registrations = new Gather<Key, Error | undefined>((keys) => this.#registerAll(keys))
  /** Rows of names that were leased once must not pile up. */
  readonly #sweeper = new Sweeper({ everyMs: sweepEveryMs, sweep: () => this.#sweep() })

  constructor(options: LedgerOptions) {
    this.#options = options
    this.sql = loadStatements<Name>(new URL('./leases.sql', import.meta.url), options.schema)
  }

  /** One decision of the database. */
  acquire(ask: Ask): Promise<Answer> {
    return this.#acquisitions.ask(ask)
  }

  /** Whether it was still the holder's. */
  release(release: Release): Promise<boolean> {
    return this.#releases.ask(release)
  }

  /** Whoever releases the name shall tell. */
  want(key: string): Promise<void> {
    return this.#wants.ask(key)
  }

  /** Registers the name, so that people see it; throws when its key is that of another. */
  async register(key: Key): Promise<void> {
    if (this.#options.names.isKnown(key)) return
    const collision = await this.#registrations.ask(key)
    if (collision) throw collision
  }

  sweepSometimes(): void {
    this.#sweeper.sometimes()
  }

  async #sweep(): Promise<boolean> {
    const [row] = await this.#options.database.query<{ removed: number }>(
      this.sql.sweep.text,
      [sweptAtOnce],
      answerWithinMs,
    )
    return row!.removed === sweptAtOnce
  }

  async #acquireAll(asks: readonly Ask[]): Promise<Answer[]> {
    // Of several asks for one name only one can be granted; the others hear what it hears. Best the one that may have it already.
    const first = new Map<string, Ask>()
    for (const ask of asks) {
      const other = first.get(ask.key.key)
      if (!other || (ask.isShared && !other.isShared)) first.set(ask.key.key, ask)
    }
    const sent = [...first.values()]
    const sentAt = performance.now()
    const { database, instanceId } = this.#options
    const values = [
      sent.map(({ key }) => key.key),
      sent.map(({ token }) => token),
      sent.map(({ ttlMs }) => ttlMs),
      sent.map(({ holdMs }) => holdMs),
      instanceId,
    ]
    const rows = await despiteCollisions(() =>
      database.query<{
        settled: boolean
        fence: string | null
        fresh: boolean
        free_in_ms: number | null
        wanted: boolean | null
      }>(this.sql.acquire.text, values, answerWithinMs),
    )
    const answers = new Map(
      rows.map((row, at) => [
        sent[at]!.key.key,
        {
          settled: row.settled,
          fence: row.fence === null ? null : Number(row.fence),
          isFresh: row.fresh,
          freeInMs: row.free_in_ms,
          wanted: row.wanted ?? false,
          sentAt,
        },
      ]),
    )
    return asks.map((ask) => {
      const answer = answers.get(ask.key.key)!
      const { token, ttlMs } = first.get(ask.key.key)!
      const isOurs = token === ask.token
      return isOurs || answer.fence === null
        ? answer
        : { ...answer, fence: null, isFresh: false, freeInMs: ttlMs, wanted: false }
    })
  }

  async #releaseAll(asks: readonly Release[]): Promise<boolean[]> {
    const { database, schema } = this.#options
    const values = [asks.map(({ key }) => key), asks.map(({ token }) => token), asks.map(({ fence }) => fence), schema]
    const rows = await despiteCollisions(() =>
      database.query<{ key: string; token: string }>(this.sql.release.text, values, answerWithinMs),
    )
    const released = new Set(rows.map(({ key, token }) => idOf(key, token)))
    return asks.map(({ key, token }) => released.has(idOf(key, token)))
  }

  async #wantAll(keys: readonly string[]): Promise<undefined[]> {
    await this.#options.database.query(this.sql.want.text, [[...new Set(keys)]], answerWithinMs)
    return keys.map(() => undefined)
  }

  async #registerAll(keys: readonly Key[]): Promise<(Error | undefined)[]> {
    const { names, database } = this.#options
    const fresh = [...new Map(keys.map((key) => [key.key, key])).values()]
    const rows = await despiteCollisions(() =>
      database.query<{ key: string; namespace: string; label: string }>(
        names.register.text,
        names.valuesFor(fresh),
        answerWithinMs,
      ),
    )
    const collisions = names.learn(
      fresh,
      rows.map((row) => [row.key, row.namespace, row.label]),
    )
    return keys.map(({ key }) => collisions.get(key))
  }
}
