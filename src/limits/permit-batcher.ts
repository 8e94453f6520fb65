import { backoffMs, type Key, pause } from '../base/index.js'
import { arrayLiteral, DatabaseUnreachableError, type Epoch } from '../postgres/index.js'
import { KeyedBatcher } from './keyed-batcher.js'
import type { LimitStore } from './store.js'

/** One request for a permit: what is asked under one life, known by its token. */
export interface PermitRequest {
  readonly key: Key
  readonly name: string
  readonly token: string
  readonly epoch: Epoch
  readonly weight: number
  readonly max: number
}

/** See `holdfast.limit_decide`. */
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

interface BatchItem extends PermitRequest {
  readonly kind: RequestKind
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

/**
 * What an instance asks of permits. All of one turn of the event loop goes out as one statement; what is given back comes
 * before what is taken.
 */
export class PermitBatcher {
  readonly #store: LimitStore
  readonly #instanceId: string
  readonly #onGranted: (token: string, fence: number) => void
  readonly #batcher = new KeyedBatcher<BatchItem, PermitDecision>((requests, mayWait) => this.#send(requests, mayWait))

  /** `onServed` is told of the instance's own waits that were granted because of something else that it asked. */
  constructor(store: LimitStore, instanceId: string, onGranted: (token: string, fence: number) => void) {
    this.#store = store
    this.#instanceId = instanceId
    this.#onGranted = onGranted
  }

  add(kind: RequestKind, request: PermitRequest): Promise<PermitDecision> {
    return this.#batcher.add({ ...request, kind })
  }

  /**
   * Asks until there is an answer, or the life is over: then the permit is nobody's anyway. `release` for what is known to
   * be held; `cancel` for what may still be on its way to the server.
   */
  async sendReliably(kind: 'release' | 'cancel', request: PermitRequest): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.add(kind, request)
        return
      } catch (error) {
        if (!(error instanceof DatabaseUnreachableError)) throw error
        if (!request.epoch.trusted) return
        await pause(backoffMs(attempt, 50, 1_000))
      }
    }
  }

  async #send(requests: readonly BatchItem[], mayWait: boolean): Promise<readonly PermitDecision[]> {
    const { channel, sql } = this.#store
    this.#store.countRequests(requests.length)
    const columns = [
      requests.map(({ kind }) => kind),
      requests.map(({ key }) => key.key),
      requests.map(({ token }) => token),
      requests.map(({ epoch }) => epoch.number),
      requests.map(({ weight }) => weight),
      requests.map(({ max }) => max),
    ].map(arrayLiteral)
    const names = JSON.stringify(requests.map(({ name }) => name))
    const { namespace } = requests[0]!.key
    const values = [channel, this.#instanceId, namespace, names, ...columns, mayWait]
    const rows = await this.#store.run<PermitDecisionRow>(sql.decide_permits, values)
    const decisions: PermitDecision[] = new Array(requests.length).fill(goneDecision)
    for (const row of rows) {
      if (row.ordinal === null) this.#onGranted(row.token, Number(row.fence))
      else decisions[row.ordinal] = decisionOf(row)
    }
    return decisions
  }
}

/** What there is no row about. */
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
