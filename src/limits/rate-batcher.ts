import type { Key } from '../base/index.js'
import { KeyedBatcher } from './keyed-batcher.js'
import type { LimitStore } from './store.js'

interface RateRequest {
  readonly key: Key
  readonly name: string
  readonly intervalNs: bigint
  readonly burst: number
  readonly cost: number
  /** Maximum time for which the request may wait, in nanoseconds. */
  readonly waitNs: number
}

interface RateDecision {
  readonly verdict: 'allowed' | 'refused' | 'locked'
  /** Time in milliseconds until the request is allowed or, if it was refused, would be allowed. */
  readonly afterMs: number
  readonly remaining: number
}

interface RateDecisionRow {
  ordinal: number
  verdict: RateDecision['verdict']
  after_ns: string
  remaining: string
}

/** Sends an instance's rate requests in one statement per event-loop turn. */
export class RateBatcher {
  readonly #batcher = new KeyedBatcher<RateRequest, RateDecision>((requests, mayWait) => this.#send(requests, mayWait))

  constructor(readonly store: LimitStore) {}

  add(request: RateRequest): Promise<RateDecision> {
    return this.#batcher.add(request)
  }

  async #send(requests: readonly RateRequest[], mayWait: boolean): Promise<readonly RateDecision[]> {
    this.store.countRequests(requests.length)
    const rows = await (requests.length === 1 && !mayWait
      ? this.#decideOne(requests[0]!)
      : this.#decide(requests, mayWait))
    const decisions: RateDecision[] = new Array(requests.length)
    for (const { ordinal, verdict, after_ns, remaining } of rows) {
      // Rounds the time up to whole milliseconds, so that a retry is allowed after this time but not 1 ms earlier.
      decisions[ordinal] = { verdict, afterMs: Math.ceil(Number(after_ns) / 1e6), remaining: Number(remaining) }
    }
    return decisions
  }

  #decideOne({ key, name, intervalNs, burst, cost, waitNs }: RateRequest): Promise<RateDecisionRow[]> {
    const values = [key.key, key.namespace, name, String(intervalNs), burst, cost, String(waitNs)]
    return this.store.run(this.store.sql.decide_rate, values)
  }

  #decide(requests: readonly RateRequest[], mayWait: boolean): Promise<RateDecisionRow[]> {
    const given = requests.map(({ key, name, intervalNs, burst, cost, waitNs }, ordinal) => ({
      ordinal,
      key: key.key,
      namespace: key.namespace,
      name,
      interval_ns: String(intervalNs),
      burst,
      cost,
      wait_ns: String(waitNs),
    }))
    return this.store.run(this.store.sql.decide_rates, [JSON.stringify(given), mayWait])
  }
}
