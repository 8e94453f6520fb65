import type { Key } from '../base/index.js'
import { Lines } from './lines.js'
import type { Server } from './server.js'

interface Spending {
  readonly key: Key
  readonly name: string
  readonly eachNs: bigint
  readonly burst: number
  readonly cost: number
  /** How long the asker would wait for its place. */
  readonly waitNs: number
}

interface Decision {
  readonly verdict: 'allowed' | 'refused' | 'locked'
  /** When it is, or would be, its turn. */
  readonly afterMs: number
  readonly remaining: number
}

interface Row {
  place: number
  verdict: Decision['verdict']
  after_ns: string
  remaining: string
}

/** What an instance asks of rates: all of one turn of the event loop as one statement. */
export class Rates {
  readonly #server: Server
  readonly #lines = new Lines<Spending, Decision>((asks, patient) => this.#send(asks, patient))

  constructor(server: Server) {
    this.#server = server
  }

  spend(spending: Spending): Promise<Decision> {
    return this.#lines.ask(spending)
  }

  async #send(asks: readonly Spending[], patient: boolean): Promise<readonly Decision[]> {
    this.#server.countAsks(asks.length)
    const given = asks.map(({ key, name, eachNs, burst, cost, waitNs }, place) => ({
      place,
      key: key.key,
      namespace: key.namespace,
      name,
      each_ns: String(eachNs),
      burst,
      cost,
      wait_ns: String(waitNs),
    }))
    const rows = await this.#server.run<Row>(this.#server.sql.consume, [JSON.stringify(given), patient])
    const decisions: Decision[] = new Array(asks.length)
    for (const { place, verdict, after_ns, remaining } of rows) {
      // Rounded up to whole milliseconds: a retry then is allowed, and one a millisecond earlier is not.
      decisions[place] = { verdict, afterMs: Math.ceil(Number(after_ns) / 1e6), remaining: Number(remaining) }
    }
    return decisions
  }
}
