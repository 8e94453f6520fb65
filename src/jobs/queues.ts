import { checkName, hashedKey } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import { UnknownQueueError } from './errors.js'
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
    const key = this.#newKeyOf(queue)
    this.#keys.set(queue, key)
    // No call waits for this write, because the queue's name is only used for display and for `unknown`.
    void this.#store.run('record_queue', [key, this.#namespace, queue]).catch(() => this.#keys.delete(queue))
    return key
  }

  /** Returns the key of a queue that should exist, and does not record the queue. */
  existingKeyOf(queue: string): string {
    return this.#keys.get(queue) ?? this.#newKeyOf(queue)
  }

  /** Whether this instance has used the queue, even if the queue's name is not stored yet. */
  isUsed(queue: string): boolean {
    return this.#keys.has(queue)
  }

  /** Throws an error if no instance has ever used the queue. */
  async throwIfUnknown(queue: string): Promise<void> {
    if (this.isUsed(queue)) return
    const values = [this.existingKeyOf(queue), this.#namespace]
    const [row] = await this.#store.read<{ is_known: boolean; names: string[] }>('known_queues', values)
    if (!row!.is_known) throw new UnknownQueueError(queue, this.#namespace, row!.names)
  }

  keysOf(queues: readonly string[]): string {
    return arrayLiteral(queues.map((queue) => this.keyOf(queue)))
  }

  budgetKeyOf(budget: string): string {
    return hashedKey(this.#namespace, `budget/${budget}`).key
  }

  #newKeyOf(queue: string): string {
    return hashedKey(this.#namespace, `queue/${checkName(queue, 'queue')}`).key
  }
}
