import { Batcher } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

interface HasKey {
  readonly key: { readonly key: string; readonly label: string }
}

/**
 * Sends a batch and returns one decision per request. With `mayWait`, all requests are for the same entity, and the statement may wait for
 * that entity's row.
 */
type Send<Request, Decision> = (requests: readonly Request[], mayWait: boolean) => Promise<readonly Decision[]>

/** Maximum number of pool connections that wait for rows at the same time. */
const maxRowWaits = 2
const maxRowWaitMs = 10_000
/** Maximum number of requests in one statement. A statement keeps its rows locked until it ends. */
const maxBatch = 250

/**
 * Batches the requests from one event-loop turn without letting one entity block another entity. The shared statement
 * does not wait for rows that other transactions have locked, and returns `locked` for such rows. Requests for a locked
 * entity are retried in separate batches.
 */
export class KeyedBatcher<Request extends HasKey, Decision extends { readonly verdict: string }> {
  readonly #send: Send<Request, Decision>
  readonly #sharedBatcher: Batcher<Request, Decision>
  readonly #ownBatchers = new Map<string, { readonly batcher: Batcher<Request, Decision>; users: number }>()
  readonly #queue: (() => void)[] = []
  #rowWaits = 0

  constructor(send: Send<Request, Decision>) {
    this.#send = send
    this.#sharedBatcher = new Batcher((requests) => send(requests, false), { maxBatch })
  }

  async add(request: Request): Promise<Decision> {
    if (!this.#ownBatchers.has(request.key.key)) {
      const decision = await this.#sharedBatcher.add(request)
      if (decision.verdict !== 'locked') return decision
    }
    return this.#addToOwn(request)
  }

  async #addToOwn(request: Request): Promise<Decision> {
    const { key, label } = request.key
    const until = performance.now() + maxRowWaitMs
    const own = this.#ownBatchers.get(key) ?? {
      batcher: new Batcher((requests) => this.#sendWaiting(requests), { maxBatch }),
      users: 0,
    }
    this.#ownBatchers.set(key, own)
    own.users++
    try {
      for (;;) {
        const decision = await own.batcher.add(request)
        if (decision.verdict !== 'locked') return decision
        if (performance.now() > until) {
          throw new DatabaseUnreachableError(`The row of "${label}" was still locked by another transaction after 10s`)
        }
      }
    } finally {
      own.users--
      if (own.users === 0) this.#ownBatchers.delete(key)
    }
  }

  async #sendWaiting(requests: readonly Request[]): Promise<readonly Decision[]> {
    if (this.#rowWaits === maxRowWaits) await new Promise<void>((resolve) => this.#queue.push(resolve))
    else this.#rowWaits++
    try {
      return await this.#send(requests, true)
    } finally {
      const next = this.#queue.shift()
      if (next) next()
      else this.#rowWaits--
    }
  }
}
