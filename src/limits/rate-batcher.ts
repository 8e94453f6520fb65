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

/** Time until the request is allowed, as the SQL function `rate_after_ns` returns it. Null if another transaction has locked the row. */
interface RateTime {
  after_ns: string | null
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
    if (requests.length === 1 && !mayWait) return [await this.#decideOne(requests[0]!)]
    const decisions: RateDecision[] = new Array(requests.length)
    for (const { ordinal, after_ns } of await this.#decide(requests, mayWait)) {
      decisions[ordinal] = decisionOf(requests[ordinal]!, after_ns)
    }
    return decisions
  }

  async #decideOne(request: RateRequest): Promise<RateDecision> {
    const { key, name, intervalNs, burst, cost, waitNs } = request
    const values = [key.key, key.namespace, name, String(intervalNs), burst, cost, String(waitNs)]
    const [row] = await this.store.run<RateTime>(this.store.sql.decide_rate, values)
    return decisionOf(request, row!.after_ns)
  }

  #decide(requests: readonly RateRequest[], mayWait: boolean): Promise<(RateTime & { ordinal: number })[]> {
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

function decisionOf({ intervalNs, waitNs }: RateRequest, after: string | null): RateDecision {
  if (after === null) return { verdict: 'locked', afterMs: 0, remaining: 0 }
  const afterNs = BigInt(after)
  return {
    verdict: afterNs > waitNs ? 'refused' : 'allowed',
    // Rounds the time up to whole milliseconds, so that a retry is allowed after this time but not 1 ms earlier.
    afterMs: Math.max(0, Math.ceil(Number(afterNs) / 1e6)),
    // A negative time is the time for which further units are available now.
    remaining: afterNs < 0n ? Number(-afterNs / intervalNs) : 0,
  }
}
