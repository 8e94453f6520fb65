import type { Key } from '../base/index.js'
import { arrayLiteral, LockTableFullError, type Session, type Statement } from '../postgres/index.js'
import type { LockBudget } from './lock-budget.js'

export type LockMode = 'exclusive' | 'shared'

interface TryRequest {
  readonly key: Key
  readonly mode: LockMode
  resolve(fence: number | null): void
  reject(error: unknown): void
}

type ReleaseRequest = Omit<TryRequest, 'resolve'> & { resolve(): void }

export type LockBatchStatements = Record<'lock_batch' | 'try_one' | 'release_one', Statement>

/**
 * Number of concurrent statements. The server executes one statement while the client processes the other statement's
 * result.
 */
const maxStatements = 2
/**
 * Minimum size of a batch that is split in two. For a smaller batch, a second statement would cost more than it saves.
 */
const minToSplit = 16

/**
 * Sends one session's lock attempts and releases in batches: one statement per event-loop turn, or two statements for a
 * large batch. A key is in at most one statement at a time, because a failed statement releases all of its keys. The
 * arbiter ensures that the session does not already hold a key that it tries to lock, because PostgreSQL would grant
 * that key again.
 */
export class LockBatcher {
  #tries: TryRequest[] = []
  #releases: ReleaseRequest[] = []
  #scheduled = false
  #underWay = 0
  readonly #keysUnderWay = new Set<string>()

  constructor(
    readonly session: Session,
    readonly statements: LockBatchStatements,
    readonly budget: LockBudget,
  ) {}

  /** Returns the fence, or null if the key is busy. */
  try(key: Key, mode: LockMode): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#tries.push({ key, mode, resolve, reject })
      this.#schedule()
    })
  }

  release(key: Key, mode: LockMode): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#releases.push({ key, mode, resolve, reject })
      this.#schedule()
    })
  }

  /** Sends the release immediately, before later statements. Only for a session that serves a single name. */
  async releaseNow(key: Key, mode: LockMode): Promise<void> {
    await this.session
      .run(this.statements.release_one, [key.key, mode === 'shared'])
      .then(() => this.budget.giveBack(1))
      // The failed statement may have released the lock, and a later statement may have acquired it again. A second release could then take
      // the lock away from its new holder, so only the end of the session is safe.
      .catch((error) => this.session.lose(error))
  }

  #schedule(): void {
    const isNothing = this.#releases.length + this.#tries.length === 0
    if (isNothing || this.#scheduled || this.#underWay === maxStatements) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#sendNext()
    })
  }

  async #sendNext(): Promise<void> {
    // One large statement would leave the server idle while the client processes the result, so two halves of the batch
    // alternate.
    const pending = this.#releases.length + this.#tries.length
    const limit = this.#underWay === 0 && pending >= minToSplit ? Math.ceil(pending / 2) : pending
    const [releases, laterReleases] = this.#select(this.#releases, limit)
    const [tries, laterTries] = this.#select(this.#tries, limit - releases.length)
    this.#releases = laterReleases
    this.#tries = laterTries
    if (releases.length + tries.length === 0) return
    const keys = [...releases, ...tries].map(({ key }) => key.key)
    for (const key of keys) this.#keysUnderWay.add(key)
    this.#underWay++
    this.#schedule()
    try {
      await this.#execute(tries, releases)
    } catch (error) {
      await this.#cleanUp(tries, releases, error)
    }
    for (const key of keys) this.#keysUnderWay.delete(key)
    this.#underWay--
    this.#schedule()
  }

  #select<T extends TryRequest | ReleaseRequest>(requests: T[], limit: number): [now: T[], later: T[]] {
    const now: T[] = []
    const later: T[] = []
    for (const one of requests) {
      if (now.length < limit && !this.#keysUnderWay.has(one.key.key)) now.push(one)
      else later.push(one)
    }
    return [now, later]
  }

  async #execute(tries: TryRequest[], releases: ReleaseRequest[]): Promise<void> {
    const admitted = await this.#reserve(tries)
    if (admitted.length + releases.length === 0) return
    const fences = await this.#send(releases, admitted)
    for (const release of releases) release.resolve()
    this.budget.giveBack(releases.length)
    let busy = 0
    for (const [index, request] of admitted.entries()) {
      const fence = fences[index] ? Number(fences[index]) : null
      if (fence === null) busy++
      request.resolve(fence)
    }
    this.budget.giveBack(busy)
  }

  /** Returns each attempt's fence. The fence is null or an empty string if the name is busy. */
  async #send(releases: ReleaseRequest[], tries: TryRequest[]): Promise<(string | null)[]> {
    const { lock_batch, try_one, release_one } = this.statements
    if (releases.length + tries.length === 1) {
      const { key, mode } = (tries[0] ?? releases[0])!
      const values = [key.key, mode === 'shared']
      const [row] = tries[0]
        ? await this.session.runGrant(try_one, values)
        : await this.session.run(release_one, values)
      return tries[0] ? row! : []
    }
    const [row] = await this.session.runGrant(lock_batch, [...columnsOf(releases), ...columnsOf(tries)])
    return row![1]!.split(',')
  }

  /** Returns the lock attempts if the lock table has room for them. Otherwise, rejects the attempts. */
  async #reserve(tries: TryRequest[]): Promise<TryRequest[]> {
    try {
      if (tries.length > 0) await this.budget.reserve(this.session, tries.length)
      return tries
    } catch (error) {
      for (const refused of tries) refused.reject(error)
      return []
    }
  }

  /**
   * A failed statement may have acquired some of the locks, because session-level locks survive a rollback. This method
   * therefore releases all of the statement's keys. Releasing a lock that is not held is harmless.
   */
  async #cleanUp(tries: TryRequest[], releases: ReleaseRequest[], error: unknown): Promise<void> {
    const details = { budget: this.session.lockBudget, inUse: undefined, cause: error }
    const reason = error instanceof LockTableFullError ? new LockTableFullError(error.message, details) : error
    if (this.session.trusted) {
      const values = [...columnsOf([...tries, ...releases]), ...columnsOf([])]
      // If the release fails, the session is ended, which releases all its locks.
      await this.session.runGrant(this.statements.lock_batch, values).catch((failure) => this.session.lose(failure))
    }
    for (const request of tries) request.reject(reason)
    for (const request of releases) request.resolve()
  }
}

function columnsOf(requests: readonly Pick<TryRequest, 'key' | 'mode'>[]): string[] {
  return [arrayLiteral(requests.map(({ key }) => key.key)), arrayLiteral(requests.map(({ mode }) => mode === 'shared'))]
}
