import { backoffMs, isRetryable, type Key, pause, resultWithin } from '../base/index.js'
import { arrayLiteral, type Epoch } from '../postgres/index.js'
import { KeyedBatcher } from './keyed-batcher.js'
import type { LimitStore } from './store.js'

/** Request for a permit in one epoch, identified by its token. */
export interface PermitRequest {
  readonly key: Key
  readonly name: string
  readonly token: string
  readonly epoch: Epoch
  readonly weight: number
  readonly max: number
}

/** Kinds of requests. The comment on the SQL function `limit_decide` describes each kind. */
export type RequestKind = 'try' | 'wait' | 'release' | 'leave' | 'cancel'

export type Verdict =
  | 'granted'
  | 'waiting'
  | 'full'
  | 'in-grace'
  | 'not-present'
  | 'released'
  | 'left'
  | 'gone'
  | 'locked'

export interface PermitDecision {
  readonly verdict: Verdict
  readonly fence: number
  readonly inUse: number
  readonly waiting: number
  readonly since: Date | undefined
  readonly sinceMs: number | undefined
}

/** Decision on a request that was refused. */
export type Refusal = PermitDecision & { readonly max: number; readonly weight: number; readonly waitedMs: number }

interface BatchItem {
  readonly kind: RequestKind
  readonly key: Key
  readonly request: PermitRequest
}

interface PermitDecisionRow {
  ordinal: number | null
  verdict: Verdict
  token: string
  fence: string | null
  used: string | null
  queued: number | null
  oldest_at_ms: number | null
  oldest_for_ms: number | null
}

/** Sends an instance's permit requests in one statement per event-loop turn, with the releases first. */
export class PermitBatcher {
  readonly #batcher = new KeyedBatcher<BatchItem, PermitDecision>((items, mayWait) => this.#send(items, mayWait))

  /**
   * `onGranted` is called for each of this instance's waiting requests that was granted because another request in the
   * batch made room.
   */
  constructor(
    readonly store: LimitStore,
    readonly instanceId: string,
    readonly onGranted: (token: string, fence: number) => void,
  ) {}

  add(kind: RequestKind, request: PermitRequest): Promise<PermitDecision> {
    return this.#batcher.add({ kind, key: request.key, request })
  }

  /**
   * Resends the request until it succeeds or the epoch ends. When the epoch ends, the permit ends too. Use `release` for
   * granted permits, and `cancel` for requests that may not have reached the server yet. If no attempt succeeds within
   * the expiry, throws the first error, and the retries continue in the background.
   */
  async sendReliably(kind: 'release' | 'cancel', request: PermitRequest): Promise<void> {
    try {
      await this.add(kind, request)
    } catch (error) {
      const { expiryMs } = this.store.options
      const isSent = await resultWithin(expiryMs, this.#resend(kind, request, error))
      if (!isSent && request.epoch.trusted) throw error
    }
  }

  /** Any retryable error leaves the permit in use. Examples are a lost response and a cancelled statement. */
  async #resend(kind: RequestKind, request: PermitRequest, failure: unknown): Promise<true> {
    for (let attempt = 0; ; attempt++) {
      if (!isRetryable(failure)) throw failure
      if (!request.epoch.trusted) return true
      await pause(backoffMs(attempt, 50, 1_000))
      try {
        await this.add(kind, request)
        return true
      } catch (error) {
        failure = error
      }
    }
  }

  async #send(items: readonly BatchItem[], mayWait: boolean): Promise<readonly PermitDecision[]> {
    this.store.countRequests(items.length)
    const rows = await (items.length === 1 && !mayWait ? this.#decideOne(items[0]!) : this.#decide(items, mayWait))
    const decisions: PermitDecision[] = new Array(items.length).fill(goneDecision)
    for (const row of rows) {
      if (row.ordinal === null) this.onGranted(row.token, Number(row.fence))
      else decisions[row.ordinal] = decisionOf(row)
    }
    return decisions
  }

  #decideOne({ kind, key, request }: BatchItem): Promise<PermitDecisionRow[]> {
    const { channel, sql } = this.store
    const { name, token, epoch, weight, max } = request
    const values = [channel, this.instanceId, key.namespace, name, kind, key.key, token, epoch.number, weight, max]
    return this.store.run(sql.decide_permit, values)
  }

  #decide(items: readonly BatchItem[], mayWait: boolean): Promise<PermitDecisionRow[]> {
    const { channel, sql } = this.store
    const requests = items.map(({ request }) => request)
    const columns = [
      items.map(({ kind }) => kind),
      requests.map(({ key }) => key.key),
      requests.map(({ token }) => token),
      requests.map(({ epoch }) => epoch.number),
      requests.map(({ weight }) => weight),
      requests.map(({ max }) => max),
    ].map(arrayLiteral)
    const names = JSON.stringify(requests.map(({ name }) => name))
    const { namespace } = requests[0]!.key
    const values = [channel, this.instanceId, namespace, names, ...columns, mayWait]
    return this.store.run(sql.decide_permits, values)
  }
}

/** Decision for a request without a result row. */
const goneDecision: PermitDecision = {
  verdict: 'gone',
  fence: 0,
  inUse: 0,
  waiting: 0,
  since: undefined,
  sinceMs: undefined,
}

function decisionOf(row: PermitDecisionRow): PermitDecision {
  return {
    verdict: row.verdict,
    fence: Number(row.fence),
    inUse: Number(row.used),
    waiting: row.queued ?? 0,
    since: row.oldest_at_ms === null ? undefined : new Date(row.oldest_at_ms),
    sinceMs: row.oldest_for_ms ?? undefined,
  }
}
