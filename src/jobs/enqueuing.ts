import { Gather } from '../base/index.js'
import type { Executor } from '../postgres/index.js'
import type { Ledger } from './ledger.js'
import type { LooseEnds } from './loose-ends.js'

/** The statement that enqueues a job: it may run now, or later, or is tied to others. */
export type EnqueueStatement = 'enqueue' | 'enqueue_later' | 'enqueue_tied'

/** A job to be enqueued. */
interface NewJob {
  /** All that it may have in common with others, as the beginning of a JSON object. */
  readonly head: string
  /** JSON. */
  readonly payload: string
}

/** Single enqueues of one turn of the event loop go out as one statement; inside a transaction of the caller, at once. */
export class Enqueuing {
  readonly #ledger: Ledger
  readonly #looseEnds: LooseEnds
  readonly #gathers: Record<EnqueueStatement, Gather<NewJob, number>>

  constructor(ledger: Ledger, looseEnds: LooseEnds) {
    this.#ledger = ledger
    this.#looseEnds = looseEnds
    const gather = (statement: EnqueueStatement) =>
      new Gather<NewJob, number>((asked) => this.#enqueue(statement, asked))
    this.#gathers = {
      enqueue: gather('enqueue'),
      enqueue_later: gather('enqueue_later'),
      enqueue_tied: gather('enqueue_tied'),
    }
  }

  one(asked: NewJob, statement: EnqueueStatement): Promise<number> {
    return this.#gathers[statement].ask(asked)
  }

  /** Many with the same head, in one statement. */
  async many(
    head: string,
    payloads: readonly string[],
    statement: EnqueueStatement,
    tx: Executor | undefined,
  ): Promise<number[]> {
    return this.#run(statement, [headOf(head, 0, payloads.length)], payloads, tx)
  }

  /** Each with a head of its own, in this order, in one statement. */
  each(asked: readonly NewJob[], statement: EnqueueStatement, tx: Executor): Promise<number[]> {
    const heads: string[] = []
    for (let from = 0, to = 0; from < asked.length; from = to) {
      const { head } = asked[from]!
      while (asked[to]?.head === head) to++
      heads.push(headOf(head, from, to))
    }
    return this.#run(
      statement,
      heads,
      asked.map(({ payload }) => payload),
      tx,
    )
  }

  async #run(
    statement: EnqueueStatement,
    heads: readonly string[],
    payloads: readonly string[],
    tx?: Executor,
  ): Promise<number[]> {
    const values: unknown[] = [`[${heads.join(',')}]`, `[${payloads.join(',')}]`]
    if (statement === 'enqueue_tied') values.push(tx === undefined)
    const [row] = tx
      ? await this.#ledger.runIn<{ ids: string }>(tx, statement, values)
      : await this.#ledger.run<{ ids: string }>(statement, values)
    const ids = row!.ids.split(',').map(Number)
    if (statement === 'enqueue_tied' && !tx) this.#looseEnds.entering(ids)
    return ids
  }

  async #enqueue(statement: EnqueueStatement, asked: readonly NewJob[]): Promise<number[]> {
    const groups = new Map<string, number[]>()
    for (const [at, { head }] of asked.entries()) {
      const group = groups.get(head)
      if (group) group.push(at)
      else groups.set(head, [at])
    }
    let above = 0
    const heads = [...groups].map(([head, { length }]) => {
      above += length
      return headOf(head, above - length, above)
    })
    const order = [...groups.values()].flat()
    const ids = await this.#run(
      statement,
      heads,
      order.map((at) => asked[at]!.payload),
    )
    if (groups.size === 1) return ids
    const answers = new Array<number>(asked.length)
    for (const [nth, at] of order.entries()) answers[at] = ids[nth]!
    return answers
  }
}

/** For the inputs with the numbers above one and up to the other. */
function headOf(head: string, above: number, upto: number): string {
  return `${head},"above":${above},"upto":${upto}}`
}
