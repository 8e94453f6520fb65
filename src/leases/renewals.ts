import { Batcher } from '../base/index.js'
import { type Anchor, type Database, responseTimeoutMs, retryOnConflict, type Statement } from '../postgres/index.js'
import { LeaseNotHeldError } from './errors.js'
import type { LeaseHold } from './lease-hold.js'

/** Fraction of the TTL after which a failed renewal is retried. */
const retryAfterPart = 1 / 15
const maxBatch = 5_000

/**
 * Renews this instance's leases in batches. When one lease is due, all leases that are due soon are renewed in the
 * same statement.
 *
 * Renewals use the anchor connection, or dedicated connections if there is no anchor, so an exhausted pool does not
 * cause lost leases. While a renewal on the anchor connection is waiting for its response, further renewals use the other
 * connections.
 */
export class Renewals {
  readonly #holdings = new Map<string, LeaseHold>()
  readonly #extensions = new Batcher<LeaseHold, void>(async (holdings) => {
    await this.renewNow([...new Set(holdings)])
    return holdings.map(() => undefined)
  })
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #isAnchorBusy = false

  constructor(
    readonly database: Database,
    readonly anchor: Anchor | undefined,
    readonly statement: Statement,
  ) {}

  add(holding: LeaseHold): void {
    this.#holdings.set(holdIdOf(holding.key.key, holding.token), holding)
    this.#schedule(Math.min(holding.renewalDueAt, holding.trustedUntil))
  }

  remove(holding: LeaseHold): void {
    const id = holdIdOf(holding.key.key, holding.token)
    if (this.#holdings.get(id) === holding) this.#holdings.delete(id)
    if (this.#holdings.size === 0) this.#stop()
  }

  /** Returns this instance's hold for a token, if the hold is still valid. */
  find(key: string, token: string): LeaseHold | undefined {
    const holding = this.#holdings.get(holdIdOf(key, token))
    return holding?.trusted ? holding : undefined
  }

  [Symbol.iterator](): Iterator<LeaseHold> {
    return this.#holdings.values()
  }

  /** Renews the lease immediately, and uses `ttlMs` for later renewals. Concurrent calls share one statement. */
  async extend(holding: LeaseHold, ttlMs: number): Promise<void> {
    // The TTL is set before the request is sent. If another renewal overtakes this request, that renewal uses the new
    // TTL.
    holding.ttlMs = ttlMs
    await this.#extensions.add(holding)
  }

  /** Renews the holds immediately. A hold that no longer exists in the database is marked as lost. */
  async renewNow(holdings: readonly LeaseHold[]): Promise<void> {
    const sentAt = performance.now()
    const ttls = holdings.map(({ ttlMs }) => ttlMs)
    const renewed = new Set(
      await this.#send([holdings.map(({ key }) => key.key), holdings.map(({ token }) => token), ttls]),
    )
    for (const [at, holding] of holdings.entries()) {
      if (renewed.has(holdIdOf(holding.key.key, holding.token))) holding.onRenewed(ttls[at]!, sentAt)
      else {
        this.remove(holding)
        holding.lose(new LeaseNotHeldError())
      }
    }
    this.#scheduleNext()
  }

  /** Returns the renewed holds' ids. */
  async #send(values: unknown[][]): Promise<string[]> {
    const session = this.#isAnchorBusy ? undefined : this.anchor?.session
    if (!session) {
      const rows = await retryOnConflict(() =>
        this.database.query<{ key: string; token: string }>(this.statement.text, values, responseTimeoutMs),
      )
      return rows.map(({ key, token }) => holdIdOf(key, token))
    }
    this.#isAnchorBusy = true
    try {
      return (await session.run(this.statement, values)).map(([key, token]) => holdIdOf(key!, token!))
    } finally {
      this.#isAnchorBusy = false
    }
  }

  #schedule(at: number): void {
    if (at >= this.#timerAt) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => this.#renewDue(), Math.max(0, at - performance.now()))
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timerAt = Number.POSITIVE_INFINITY
  }

  #renewDue(): void {
    this.#timerAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    const due: LeaseHold[] = []
    for (const holding of this.#holdings.values()) {
      // Reading `trusted` detects whether the hold's deadline has passed.
      if (!holding.trusted) this.remove(holding)
      else if (holding.earliestRenewalAt <= now) due.push(holding)
    }
    for (let from = 0; from < due.length; from += maxBatch) {
      void this.#renewBatch(due.slice(from, from + maxBatch))
    }
    this.#scheduleNext()
  }

  async #renewBatch(holdings: readonly LeaseHold[]): Promise<void> {
    const now = performance.now()
    // If no response arrives, the renewal is retried on another connection.
    for (const holding of holdings) holding.postpone(now + holding.ttlMs * retryAfterPart * 2)
    await this.renewNow(holdings).catch(() => {
      for (const holding of holdings) holding.postpone(performance.now() + holding.ttlMs * retryAfterPart)
    })
    this.#scheduleNext()
  }

  #scheduleNext(): void {
    let next = Number.POSITIVE_INFINITY
    for (const { renewalDueAt, trustedUntil } of this.#holdings.values())
      next = Math.min(next, renewalDueAt, trustedUntil)
    if (Number.isFinite(next)) this.#schedule(next)
  }
}

export function holdIdOf(key: string, token: string): string {
  return `${key} ${token}`
}
