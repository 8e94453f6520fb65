import { HoldfastError, type Key } from '../base/index.js'
import { loadStatements, type Statement } from './statements.js'

/** Two different names have one key. With hashed names this takes four billion names; with numbers, a mistake. */
export class KeyCollisionError extends HoldfastError {
  readonly key: string
  /** What the key is called in the registry. */
  readonly registered: string

  constructor(key: Key, registered: string) {
    super(`The key ${key.key} of "${key.label}" is already that of "${registered}"`, {
      code: 'KEY_COLLISION',
      retryable: false,
      hint: 'Give one of the two another name; they would exclude each other without reason.',
    })
    this.key = key.key
    this.registered = registered
  }
}

const rememberMs = 12 * 3_600_000
const maxRemembered = 50_000

/**
 * The registry of names: which keys this process has registered lately, and with what answer. Registering again after
 * half a day keeps the row from being swept as unused.
 */
export class NameRegistry {
  readonly #known = new Map<string, { label: string; namespace: string; atMs: number }>()

  /** Registers keys and answers with what they were called before; its values come from `valuesFor`. */
  readonly register: Statement

  constructor(schema: string) {
    this.register = loadStatements<'register'>(new URL('./names.sql', import.meta.url), schema).register
  }

  /** Throws when the key is known to be that of another name. */
  check(key: Key): void {
    const known = this.#known.get(key.key)
    if (known && (known.label !== key.label || known.namespace !== key.namespace)) {
      throw new KeyCollisionError(key, labelOf(known))
    }
  }

  /** Whether this process has registered the key not long ago. */
  isKnown(key: Key): boolean {
    const known = this.#known.get(key.key)
    return known !== undefined && performance.now() - known.atMs < rememberMs
  }

  /** The values for the statement `register`. */
  registerValues(keys: readonly Key[]): unknown[] {
    // In one order everywhere, so that two instances which register the same keys cannot deadlock.
    const sorted = [...keys].sort((a, b) => (BigInt(a.key) < BigInt(b.key) ? -1 : 1))
    return [sorted.map(({ key }) => key), sorted.map(({ namespace }) => namespace), sorted.map(({ label }) => label)]
  }

  /** Takes in what `register` answered, and answers with the collisions, by key. */
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
