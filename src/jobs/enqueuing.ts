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
    const values = [`[${head},"inputs":[${payloads.join(',')}]}]`]
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
    const all = [...groups].map(
      ([head, members]) => `${head},"inputs":[${members.map((at) => asked[at]!.payload).join(',')}]}`,
    )
    const ids = idsOf(await this.#ledger.run<{ ids: string }>(statement, [`[${all.join(',')}]`]))
    if (groups.size === 1) return ids
    const answers = new Array<number>(asked.length)
    for (const [nth, at] of [...groups.values()].flat().entries()) answers[at] = ids[nth]!
    return answers
  }
}

function idsOf([row]: { ids: string }[]): number[] {
  return row!.ids.split(',').map(Number)
}
