import { Batcher } from '../base/index.js'
import type { Executor } from '../postgres/index.js'
import type { FollowUps } from './follow-ups.js'
import { writeMetas } from './meta.js'
import type { JobStore } from './store.js'

/**
 * Condition that a new job waits for: nothing, its start time, or other jobs. A second statement admits jobs that wait
 * for other jobs. Calls with different conditions do not share a statement, because the cheap calls would have to wait
 * for the expensive calls.
 */
export type EnqueueClass = 'ready' | 'delayed' | 'linked'

interface NewJob {
  /** Start of a JSON object with the job's options. Jobs with the same head are grouped. */
  readonly head: string
  /** Input as JSON. */
  readonly payload: string
  /** Meta as JSON. Undefined if the job has none. */
  readonly meta?: string | undefined
}

/** Combines single jobs that are enqueued in the same turn of the event loop into one statement. */
export class Enqueuing {
  readonly #store: JobStore
  readonly #followUps: FollowUps
  /** Batchers for single jobs. Each batcher resolves to the job's id. */
  readonly single: Readonly<Record<EnqueueClass, Batcher<NewJob, number>>>

  constructor(store: JobStore, followUps: FollowUps) {
    this.#store = store
    this.#followUps = followUps
    const gather = (waits: EnqueueClass) => new Batcher<NewJob, number>((asked) => this.#enqueue(waits, asked))
    this.single = {
      ready: gather('ready'),
      delayed: gather('delayed'),
      linked: gather('linked'),
    }
  }

  /** Enqueues several jobs that have the same head, in one statement. */
  async many(
    head: string,
    payloads: readonly string[],
    metas: readonly (string | undefined)[],
    waits: EnqueueClass,
    tx: Executor | undefined,
  ): Promise<number[]> {
    return this.#run(waits, [headOf(head, 0, payloads.length)], payloads, metas, tx)
  }

  /** Enqueues jobs that have different heads, in the given order and in one statement. */
  each(asked: readonly NewJob[], waits: EnqueueClass, tx: Executor): Promise<number[]> {
    const heads: string[] = []
    for (let from = 0, to = 0; from < asked.length; from = to) {
      const { head } = asked[from]!
      while (asked[to]?.head === head) to++
      heads.push(headOf(head, from, to))
    }
    return this.#run(
      waits,
      heads,
      asked.map(({ payload }) => payload),
      asked.map(({ meta }) => meta),
      tx,
    )
  }

  async #run(
    waits: EnqueueClass,
    heads: readonly string[],
    payloads: readonly string[],
    metas: readonly (string | undefined)[],
    tx?: Executor,
  ): Promise<number[]> {
    const values = [`[${heads.join(',')}]`, `[${payloads.join(',')}]`, tx === undefined, null, writeMetas(metas)]
    const [row] = tx
      ? await this.#store.runIn<{ ids: string }>(tx, 'enqueue', values)
      : await this.#store.run<{ ids: string }>('enqueue', values)
    const ids = row!.ids.split(',').map(Number)
    if (waits === 'linked' && !tx) this.#followUps.admit(ids)
    return ids
  }

  async #enqueue(waits: EnqueueClass, asked: readonly NewJob[]): Promise<number[]> {
    const groups = new Map<string, number[]>()
    for (const [at, { head }] of asked.entries()) {
      const group = groups.get(head)
      if (group) group.push(at)
      else groups.set(head, [at])
    }
    let lastInput = 0
    const heads = [...groups].map(([head, { length }]) => {
      lastInput += length
      return headOf(head, lastInput - length, lastInput)
    })
    const order = [...groups.values()].flat()
    const ids = await this.#run(
      waits,
      heads,
      order.map((at) => asked[at]!.payload),
      order.map((at) => asked[at]!.meta),
    )
    if (groups.size === 1) return ids
    const answers = new Array<number>(asked.length)
    for (const [nth, at] of order.entries()) answers[at] = ids[nth]!
    return answers
  }
}

/** Completes the head for the inputs with the numbers `afterInput` + 1 to `lastInput`. */
function headOf(head: string, afterInput: number, lastInput: number): string {
  return `${head},"after_input":${afterInput},"last_input":${lastInput}}`
}
