import { checkName, hashedKey } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobStore } from './store.js'

/** The queues that this instance has used. The database knows a queue by its key, and stores the name for people. */
export class Queues {
  readonly #store: JobStore
  readonly #namespace: string
  readonly #keys = new Map<string, string>()

  constructor(store: JobStore, namespace: string) {
    this.#store = store
    this.#namespace = namespace
  }

  /** Keys of all used queues, even if their names are not stored yet. */
  get keys(): readonly string[] {
    return [...this.#keys.values()]
  }

  keyOf(queue: string): string {
    const known = this.#keys.get(queue)
    if (known) return known
    const { key } = hashedKey(this.#namespace, `queue/${checkName(queue, 'queue')}`)
    this.#keys.set(queue, key)
    // No call waits for this write, because only people read the name.
    void this.#store.run('record_queue', [key, this.#namespace, queue]).catch(() => this.#keys.delete(queue))
    return key
  }

  keysOf(queues: readonly string[]): string {
    return arrayLiteral(queues.map((queue) => this.keyOf(queue)))
  }
}
