import { Batcher } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

interface HasKey {
  readonly key: { readonly key: string; readonly label: string }
}

/** Answers for each ask, in order. With `patient`, all asks are for one entity, and its row may be waited for. */
export type Send<Ask, Answer> = (requests: readonly Ask[], mayWait: boolean) => Promise<readonly Answer[]>

/** Of the pool's connections, so many may wait for rows at a time. */
const maxRowWaits = 2
const maxRowWaitMs = 10_000
/** In one statement. Until it has ended, all that it decided is locked. */
const maxBatch = 250

/**
 * No entity slows another. What is asked in one turn of the event loop goes out together, but an entity whose row
 * somebody else has locked just then is not waited for: it is answered with `locked`, and asked for again in a line of its own,
 * patiently, together with whatever else is asked of it meanwhile.
 */
export class KeyedBatcher<Ask extends HasKey, Answer extends { readonly verdict: string }> {
  readonly #send: Send<Ask, Answer>
  readonly #sharedBatcher: Batcher<Ask, Answer>
  readonly #ownBatchers = new Map<string, { readonly batcher: Batcher<Ask, Answer>; users: number }>()
  readonly #queue: (() => void)[] = []
  #rowWaits = 0

  constructor(send: Send<Ask, Answer>) {
    this.#send = send
    this.#sharedBatcher = new Batcher((requests) => send(requests, false), { maxBatch })
  }

  async add(request: Ask): Promise<Answer> {
    if (!this.#ownBatchers.has(request.key.key)) {
      const answer = await this.#sharedBatcher.add(request)
      if (answer.verdict !== 'locked') return answer
    }
    return this.#addToOwn(request)
  }

  async #addToOwn(request: Ask): Promise<Answer> {
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
        const answer = await own.batcher.add(request)
        if (answer.verdict !== 'locked') return answer
        if (performance.now() > until) {
          throw new DatabaseUnreachableError(`Another transaction keeps the row of "${label}" locked`)
        }
      }
    } finally {
      own.users--
      if (own.users === 0) this.#ownBatchers.delete(key)
    }
  }

  async #sendWaiting(requests: readonly Ask[]): Promise<readonly Answer[]> {
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
