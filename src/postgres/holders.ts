import { Batcher, resultWithin } from '../base/index.js'
import type { Database } from './database.js'
import { nameWithProcess } from './instance-name.js'
import { loadStatements } from './statements.js'

/** Holder of a name, for error messages. */
export interface Holder {
  /** Name of the instance, or application name of a session that does not belong to Holdfast. Undefined if neither is known. */
  readonly name: string | undefined
  /** The name with the process, such as `worker-3 (process 4242 on web-1)`. */
  readonly text: string
  /** Milliseconds since the grant. Null if the grant time is not known yet. */
  readonly heldMs: number | null
}

interface HolderRow {
  readonly key: string
  readonly instance: string | null
  readonly name: string | null
  readonly host: string | null
  readonly os_pid: number | null
  readonly application: string | null
  readonly pid: number | null
  readonly held_ms: number | null
}

/** Maximum time by which a lookup delays an error. */
const maxDelayMs = 300
/** Time for which a result is reused, so that many failing calls do not overload the database. */
const reuseMs = 1_000
const maxCached = 1_000

interface Lookup {
  readonly at: number
  /** Grant time that the failed call knows, in ms on the database's clock. Undefined if the call knows none. */
  readonly since: number | undefined
  readonly found: Promise<HolderRow | undefined>
}

/**
 * Finds the holder of a name after a call has failed because of this holder. A lookup is only for the error message, so its errors are
 * ignored. Each grant of a key is read at most once per second.
 */
export class HolderLookup {
  readonly #database: Database
  readonly #sql
  readonly #cached = new Map<string, Lookup>()
  readonly #locks = new Batcher<string, HolderRow | undefined>((keys) => this.#read('lock_holders', keys))
  readonly #permits = new Batcher<string, HolderRow | undefined>((keys) => this.#read('permit_holders', keys))

  constructor(database: Database, schema: string) {
    this.#database = database
    this.#sql = loadStatements<'lock_holders' | 'permit_holders'>(new URL('./holders.sql', import.meta.url), schema)
  }

  /** Returns the holder of one of the names, as a lock or as a lease. Undefined if there is none, or if there is no response in time. */
  ofNames(keys: readonly string[]): Promise<Holder | undefined> {
    return this.#find(this.#locks, keys)
  }

  /**
   * Returns the holder of a limit's oldest permit, which was granted at `since`. Undefined if there is none, or if there is no response
   * in time.
   */
  ofLimit(key: string, since: Date | undefined): Promise<Holder | undefined> {
    return this.#find(this.#permits, [key], since?.getTime())
  }

  async #find(
    batcher: Batcher<string, HolderRow | undefined>,
    keys: readonly string[],
    since?: number,
  ): Promise<Holder | undefined> {
    const now = performance.now()
    const lookups = keys.map((key) => this.#lookup(batcher, key, now, since))
    const rows = await resultWithin(
      maxDelayMs,
      Promise.all(lookups.map(({ found }) => found)).catch(() => []),
    )
    const at = rows?.findIndex((row) => row !== undefined) ?? -1
    const row = rows?.[at]
    return row && holderOf(row, now - lookups[at]!.at)
  }

  #lookup(
    batcher: Batcher<string, HolderRow | undefined>,
    key: string,
    now: number,
    since: number | undefined,
  ): Lookup {
    const cached = this.#cached.get(key)
    // After another grant, the cached row names an earlier holder, which may be dead.
    if (cached && cached.since === since && now - cached.at < reuseMs) return cached
    if (this.#cached.size >= maxCached) this.#cached.clear()
    const lookup = { at: now, since, found: batcher.add(key) }
    this.#cached.set(key, lookup)
    return lookup
  }

  async #read(statement: 'lock_holders' | 'permit_holders', keys: readonly string[]) {
    const rows = await this.#database.query<HolderRow>(this.#sql[statement].text, [keys], maxDelayMs)
    const byKey = new Map(rows.map((row) => [row.key, row]))
    return keys.map((key) => byKey.get(key))
  }
}

function holderOf({ instance, name, host, os_pid, application, pid, held_ms }: HolderRow, ageMs: number): Holder {
  const heldMs = held_ms === null ? null : Math.max(0, held_ms + ageMs)
  if (instance === null) {
    const text = application ? `${application} (session ${pid})` : `session ${pid}`
    return { name: application || undefined, text, heldMs }
  }
  if (name === null) return { name: undefined, text: `instance ${instance}`, heldMs }
  return { name, text: nameWithProcess(name, host, os_pid), heldMs }
}
