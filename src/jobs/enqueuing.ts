import { Gather } from '../base/index.js'
import type { Executor } from '../postgres/index.js'
import type { Ledger } from './ledger.js'

/** A job to be enqueued. */
export interface Asked {
  /** All that it may have in common with others, as the beginning of a JSON object. */
  readonly head: string
  /** JSON. */
  readonly payload: string
}

/** Single enqueues of one turn of the event loop go out as one statement; inside a transaction of the caller, at once. */
export class Enqueuing {
  readonly #ledger: Ledger
  readonly #now
  readonly #later

  constructor(ledger: Ledger) {
    this.#ledger = ledger
    this.#now = new Gather<Asked, number>((asked) => this.#enqueue('enqueue', asked))
    this.#later = new Gather<Asked, number>((asked) => this.#enqueue('enqueue_later', asked))
  }

  one(asked: Asked, isLater: boolean): Promise<number> {
    return (isLater ? this.#later : this.#now).ask(asked)
  }

  /** Many with the same head, in one statement. */
  async many(head: string, payloads: readonly string[], isLater: boolean, tx: Executor | undefined): Promise<number[]> {
    const statement = isLater ? 'enqueue_later' : 'enqueue'
    const values = [`[${headOf(head, 0, payloads.length)}]`, `[${payloads.join(',')}]`]
    const rows = tx
      ? await this.#ledger.runIn<{ ids: string }>(tx, statement, values)
      : await this.#ledger.run<{ ids: string }>(statement, values)
    return idsOf(rows)
  }

  async #enqueue(statement: 'enqueue' | 'enqueue_later', asked: readonly Asked[]): Promise<number[]> {
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
    const inputs = order.map((at) => asked[at]!.payload)
    const ids = idsOf(
      await this.#ledger.run<{ ids: string }>(statement, [`[${heads.join(',')}]`, `[${inputs.join(',')}]`]),
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

function idsOf([row]: { ids: string }[]): number[] {
  return row!.ids.split(',').map(Number)
}
