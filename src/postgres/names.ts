import { HoldfastError, type Key } from '../base/index.js'
import { loadStatements, type Statement } from './statements.js'

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
      hint: 'Rename one of the two names. Names with the same key exclude each other.',
    })
    this.key = key.key
    this.registered = registered
  }
}

const rememberMs = 12 * 3_600_000
const maxRemembered = 50_000

/**
 * Caches the keys that this process has registered in `holdfast.name`. A key is registered again after 12 hours, so that its row is not
 * deleted as unused.
 */
export class NameRegistry {
  readonly #known = new Map<string, { label: string; namespace: string; atMs: number }>()

  /** Registers keys and returns the names that are already registered for them. Use with `registerValues`. */
  readonly register: Statement

  constructor(schema: string) {
    this.register = loadStatements<'register'>(new URL('./names.sql', import.meta.url), schema).register
  }

  /** Throws if the key is known to belong to another name. */
  check(key: Key): void {
    const known = this.#known.get(key.key)
    if (known && (known.label !== key.label || known.namespace !== key.namespace)) {
      throw new KeyCollisionError(key, labelOf(known))
    }
  }

  /** Whether this process has registered the key recently. */
  isKnown(key: Key): boolean {
    const known = this.#known.get(key.key)
    return known !== undefined && performance.now() - known.atMs < rememberMs
  }

  /** Returns the values for the `register` statement. */
  registerValues(keys: readonly Key[]): unknown[] {
    // The keys are sorted, so that two instances that register the same keys cannot deadlock.
    const sorted = [...keys].sort((a, b) => (BigInt(a.key) < BigInt(b.key) ? -1 : 1))
    return [sorted.map(({ key }) => key), sorted.map(({ namespace }) => namespace), sorted.map(({ label }) => label)]
  }

  /** Processes the rows that the `register` statement returned. Returns the collisions, by key. */
  recordRegistered(keys: readonly Key[], rows: readonly string[][]): Map<string, KeyCollisionError> {
    const registered = new Map(rows.map(([key, namespace, label]) => [key!, { namespace: namespace!, label: label! }]))
    const collisions = new Map<string, KeyCollisionError>()
    if (this.#known.size > maxRemembered) this.#known.clear()
    for (const key of keys) {
      const owner = registered.get(key.key) ?? key
      this.#known.set(key.key, { label: owner.label, namespace: owner.namespace, atMs: performance.now() })
      if (owner.label !== key.label || owner.namespace !== key.namespace) {
        collisions.set(key.key, new KeyCollisionError(key, labelOf(owner)))
      }
    }
    return collisions
  }
}

function labelOf({ namespace, label }: { namespace: string; label: string }): string {
  return namespace ? `${label} (namespace ${namespace})` : label
}
