import { checkName, hashedKey } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobStore } from './store.js'

/**
 * Queues that this instance has used. The database identifies a queue by its key, and stores the queue's name for
 * display only.
 */
export class Queues {
  readonly #store: JobStore
  readonly #namespace: string
  readonly #keys = new Map<string, string>()

  constructor(store: JobStore, namespace: string) {
    this.#store = store
    this.#namespace = namespace
  }

  /** Keys of all queues that this instance has used, including queues whose names have not been stored yet. */
  get keys(): readonly string[] {
    return [...this.#keys.values()]
  }

  keyOf(queue: string): string {
    const known = this.#keys.get(queue)
    if (known) return known
    const { key } = hashedKey(this.#namespace, `queue/${checkName(queue, 'queue')}`)
    this.#keys.set(queue, key)
    // No call waits for this write, because the queue's name is used only for display.
    void this.#store.run('record_queue', [key, this.#namespace, queue]).catch(() => this.#keys.delete(queue))
    return key
  }

  keysOf(queues: readonly string[]): string {
    return arrayLiteral(queues.map((queue) => this.keyOf(queue)))
  }
}
