import { HoldfastError, type Key, Poller } from '../base/index.js'
import type { Anchor } from './anchor.js'
import type { Database } from './database.js'
import { responseTimeoutMs } from './response-timeout.js'
import { arrayLiteral, loadStatements, type Statement } from './statements.js'

/**
 * Thrown if two different names have the same key. With hashed names, a collision is likely only after about four billion names. With
 * numbered keys or pairs, a collision is a mistake in the program.
 */
export class KeyCollisionError extends HoldfastError {
  readonly key: string
  /** The other name, which is registered for the key. */
  readonly registered: string

  constructor(key: Key, registered: string) {
    super(`The key ${key.key} of "${key.label}" is already used by "${registered}"`, {
      code: 'KEY_COLLISION',
      retryable: false,
      hint: 'Rename one of the two names. A lock on one of them also blocks the other, because they have the same key.',
    })
    this.key = key.key
    this.registered = registered
  }
}

interface NameRegistryOptions {
  readonly anchor: Anchor | undefined
  /** Database that runs the statement if the anchor has no session, or if there is no anchor. */
  readonly keepaliveDatabase: Database
  readonly schema: string
}

interface PendingName {
  readonly key: Key
  /** Whether the name is needed only until `forget`. */
  readonly isBrief: boolean
}

interface RegisteredName {
  readonly namespace: string
  readonly label: string
  readonly atMs: number
}

const rememberMs = 12 * 3_600_000
const maxRemembered = 50_000
/** Minimum time between two statements, so that a busy process registers many names in each statement. */
const everyMs = 100
const retryMs = 1_000
/** A larger batch would occupy the anchor connection for longer than a few milliseconds. */
const maxBatch = 500

/**
 * Registers names in `holdfast.name` in the background, after the calls that use the names have received their results.
 * The registry is for display, and reveals names that have the same key. A key is registered again after 12 hours, so
 * that its row is not deleted as unused.
 */
export class NameRegistry {
  readonly #options: NameRegistryOptions
  readonly #statement: Statement
  readonly #registered = new Map<string, RegisteredName>()
  readonly #pending = new Map<string, PendingName>()
  #nextAt = 0
  readonly #poller = new Poller({
    isNeeded: () => this.#pending.size > 0,
    poll: () => this.#registerPending(),
    // After a quiet time, a name is registered in the next turn of the event loop, so that people see the name
    // immediately.
    pauseMs: (failures) => (failures > 0 ? retryMs : Math.max(0, this.#nextAt - performance.now())),
    pausesFirst: true,
  })

  constructor(options: NameRegistryOptions) {
    this.#options = options
    this.#statement = loadStatements<'register'>(new URL('./names.sql', import.meta.url), options.schema).register
  }

  /**
   * Registers a key soon, unless this process has registered the key recently. Throws if the key is known to belong to
   * another name.
   */
  use(key: Key): void {
    this.#use(key, false)
  }

  /** Like `use`, but the name is not registered if `forget` is called before that. */
  useBriefly(key: Key): void {
    this.#use(key, true)
  }

  /** Ends the use of a key that began with `useBriefly`. */
  forget(key: Key): void {
    if (this.#pending.get(key.key)?.isBrief) this.#pending.delete(key.key)
  }

  #use(key: Key, isBrief: boolean): void {
    const registered = this.#registered.get(key.key)
    if (registered) {
      if (registered.label !== key.label || registered.namespace !== key.namespace) {
        throw new KeyCollisionError(key, labelOf(registered))
      }
      if (performance.now() - registered.atMs < rememberMs) return
    }
    // If the database is unreachable for long, further names are dropped. The next use of such a name adds it again.
    if (this.#pending.size >= maxRemembered) return
    const isStillBrief = this.#pending.get(key.key)?.isBrief !== false && isBrief
    this.#pending.set(key.key, { key, isBrief: isStillBrief })
    this.#poller.start()
  }

  /** Registers the pending names now. If this fails, the names stay pending. */
  async flush(): Promise<void> {
    await this.#registerPending().catch(() => {})
  }

  /** Stops registering in the background, and registers the pending names. */
  async close(): Promise<void> {
    void this.#poller.close()
    await this.flush()
  }

  async #registerPending(): Promise<void> {
    this.#nextAt = performance.now() + everyMs
    const keys = [...this.#pending.values()].map(({ key }) => key)
    for (let from = 0; from < keys.length; from += maxBatch) await this.#register(keys.slice(from, from + maxBatch))
  }

  async #register(keys: readonly Key[]): Promise<void> {
    const rows = await this.#run([
      arrayLiteral(keys.map(({ key }) => key)),
      keys.map(({ namespace }) => namespace),
      keys.map(({ label }) => label),
    ])
    const owners = new Map(rows.map(([key, namespace, label]) => [key!, { namespace: namespace!, label: label! }]))
    const atMs = performance.now()
    if (this.#registered.size > maxRemembered) this.#registered.clear()
    for (const { key, namespace, label } of keys) {
      this.#registered.set(key, { ...(owners.get(key) ?? { namespace, label }), atMs })
      this.#pending.delete(key)
    }
  }

  async #run(values: unknown[]): Promise<string[][]> {
    const { anchor, keepaliveDatabase } = this.#options
    if (anchor?.session) return anchor.session.run(this.#statement, values)
    const rows = await keepaliveDatabase.query<Record<string, string>>(this.#statement.text, values, responseTimeoutMs)
    return rows.map((row) => Object.values(row))
  }
}

function labelOf({ namespace, label }: Pick<RegisteredName, 'namespace' | 'label'>): string {
  return namespace ? `${label} (namespace ${namespace})` : label
}
