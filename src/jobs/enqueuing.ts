import { Batcher } from '../base/index.js'
import type { Executor } from '../postgres/index.js'
import type { FollowUps } from './follow-ups.js'
import { writeMetas } from './meta.js'
import type { JobStore } from './store.js'

/**
 * Condition that a new job waits for: nothing, its start time, room in its budgets, or other jobs. A second statement
 * admits jobs that wait for other jobs or for room. Calls with different conditions do not share a statement, because the
 * cheap calls would have to wait for the expensive calls.
 */
export type EnqueueClass = 'ready' | 'delayed' | 'budgeted' | 'linked'

interface NewJob {
  /** Start of a JSON object with the job's options. Jobs with the same head are grouped. */
  readonly head: string
  /** Input as JSON. */
  readonly payload: string
  /** Meta as JSON. Undefined if the job has none. */
  readonly meta?: string | undefined
}

interface KindOnQueue {
  readonly kind: string
  readonly queue: string
}

/** A job that one call enqueues. */
interface SingleJob extends NewJob {
  readonly definition: KindOnQueue
}

/** Room in budgets that is reserved for the jobs of some heads. */
interface Reservation {
  readonly number: string
  /** Positions of these heads, from 1. */
  readonly heads: ReadonlySet<number>
}

/**
 * Returns a function that wakes a worker of this instance that is resting, has no jobs, and runs jobs of this
 * definition. Undefined if there is no such worker.
 */
export type FindIdleWorker = (definition: KindOnQueue) => (() => Promise<void>) | undefined

/** Combines single jobs that are enqueued in the same turn of the event loop into one statement. */
export class Enqueuing {
  readonly #store: JobStore
  readonly #followUps: FollowUps
  readonly #findIdleWorker: FindIdleWorker
  /** Batchers for single jobs. Each batcher resolves to the job's id. */
  readonly single: Readonly<Record<EnqueueClass, Batcher<SingleJob, number>>>

  constructor(store: JobStore, followUps: FollowUps, findIdleWorker: FindIdleWorker) {
    this.#store = store
    this.#followUps = followUps
    this.#findIdleWorker = findIdleWorker
    const gather = (waits: EnqueueClass) => new Batcher<SingleJob, number>((asked) => this.#enqueue(waits, asked))
    this.single = {
      ready: new Batcher<SingleJob, number>((asked) => this.#enqueueReady(asked)),
      delayed: gather('delayed'),
      budgeted: gather('budgeted'),
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
    const heads = [headOf(head, 0, payloads.length)]
    const reservation = waits === 'budgeted' && !tx ? await this.#reserve(heads) : undefined
    return this.#run(waits, heads, payloads, metas, tx, { reservation: reservation?.number })
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
    details: EnqueueDetails = {},
  ): Promise<number[]> {
    const values = valuesOf(heads, payloads, metas, tx === undefined, details)
    const [row] = tx
      ? await this.#store.runIn<{ ids: string }>(tx, 'enqueue', values)
      : await this.#store.run<{ ids: string }>('enqueue', values)
    const ids = row!.ids.split(',').map(Number)
    if (!tx && details.reservation === undefined && (waits === 'linked' || waits === 'budgeted'))
      this.#followUps.admit(ids)
    return ids
  }

  /**
   * Reserves room in the budgets of these jobs, in a separate statement that keeps no lock until the next commit has been
   * flushed. Returns undefined if there is no room, or if earlier jobs of this process are being admitted, because these
   * jobs come first.
   */
  async #reserve(heads: readonly string[]): Promise<Reservation | undefined> {
    if (this.#followUps.isAdmitting) return undefined
    const [row] = await this.#store.run<{ number: string | null; heads: string }>('reserve', [`[${heads.join(',')}]`])
    const { number, heads: reserved } = row!
    return number === null ? undefined : { number, heads: new Set(reserved.split(',').map(Number)) }
  }

  /**
   * A single job starts sooner if this process wakes its own worker than if the server notifies one. Several jobs are
   * spread over the idle workers of all instances, so the server notifies them.
   */
  async #enqueueReady(asked: readonly SingleJob[]): Promise<number[]> {
    const { definition, head, payload, meta } = asked[0]!
    const wake = asked.length === 1 ? this.#findIdleWorker(definition) : undefined
    if (!wake) return this.#enqueue('ready', asked)
    try {
      return await this.#run('ready', [headOf(head, 0, 1)], [payload], [meta], undefined, { hasWorker: true })
    } finally {
      // Also after a failure, because the job may have been enqueued although the response was lost.
      await wake()
    }
  }

  async #enqueue(waits: EnqueueClass, asked: readonly NewJob[]): Promise<number[]> {
    const places = new Map<string, number[]>()
    for (const [at, { head }] of asked.entries()) {
      const group = places.get(head)
      if (group) group.push(at)
      else places.set(head, [at])
    }
    const groups = [...places].map(([head, places]) => ({ head, places }))
    const reservation = waits === 'budgeted' ? await this.#reserve(headsOf(groups)) : undefined
    const hasRoom = groups.map((_, at) => reservation?.heads.has(at + 1) ?? false)
    const answers = new Array<number>(asked.length)
    for (const isReserved of [true, false]) {
      const some = groups.filter((_, at) => hasRoom[at] === isReserved)
      if (some.length === 0) continue
      const order = some.flatMap(({ places }) => places)
      const ids = await this.#run(
        waits,
        headsOf(some),
        order.map((at) => asked[at]!.payload),
        order.map((at) => asked[at]!.meta),
        undefined,
        { reservation: isReserved ? reservation!.number : undefined },
      )
      for (const [nth, at] of order.entries()) answers[at] = ids[nth]!
    }
    return answers
  }
}

/** Returns the completed heads of jobs that are enqueued in this order. */
function headsOf(groups: readonly { readonly head: string; readonly places: readonly number[] }[]): string[] {
  let lastInput = 0
  return groups.map(({ head, places }) => {
    lastInput += places.length
    return headOf(head, lastInput - places.length, lastInput)
  })
}

/** Completes the head for the inputs with the numbers `afterInput` + 1 to `lastInput`. */
function headOf(head: string, afterInput: number, lastInput: number): string {
  return `${head},"after_input":${afterInput},"last_input":${lastInput}}`
}

/** See `job_enqueue`. */
interface EnqueueDetails {
  readonly patience?: string | null
  readonly reservation?: string | null | undefined
  readonly hasWorker?: boolean
}

/** Returns the parameters of the statement `enqueue`. */
export function valuesOf(
  heads: readonly string[],
  payloads: readonly string[],
  metas: readonly (string | undefined)[],
  isAlone: boolean,
  { patience = null, reservation = null, hasWorker = false }: EnqueueDetails = {},
): unknown[] {
  return [
    `[${heads.join(',')}]`,
    `[${payloads.join(',')}]`,
    isAlone,
    patience,
    writeMetas(metas),
    reservation,
    hasWorker,
  ]
}
