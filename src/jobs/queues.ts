import { checkName, hashedKey } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobStore } from './store.js'

/** The queues that this instance has used: each is known to the database by its key, and its name is written down for people. */
export class Queues {
  readonly #store: JobStore
  readonly #namespace: string
  readonly #keys = new Map<string, string>()

  constructor(store: JobStore, namespace: string) {
    this.#store = store
    this.#namespace = namespace
  }

  /** The keys of all of them, whether or not they are written down yet. */
  get keys(): readonly string[] {
    return [...this.#keys.values()]
  }

  keyOf(queue: string): string {
    const known = this.#keys.get(queue)
    if (known) return known
    const { key } = hashedKey(this.#namespace, `queue/${checkName(queue, 'queue')}`)
    this.#keys.set(queue, key)
    // For people; a job needs no row there, so nobody waits for it.
    void this.#store.run('record_queue', [key, this.#namespace, queue]).catch(() => this.#keys.delete(queue))
    return key
  }

  keysOf(queues: readonly string[]): string {
    return arrayLiteral(queues.map((queue) => this.keyOf(queue)))
  }
}
