import { backoffMs, pause } from '../base/index.js'
import { type Anchor, arrayLiteral, type Epoch, type Session } from '../postgres/index.js'
import type { ClaimedRow, ClaimRequest, ClaimResult, Claims, HeldJob } from './claims.js'
import type { Maintenance } from './maintenance.js'
import type { JobStore } from './store.js'

interface ClaimableRow {
  readonly jobs: string | null
  readonly new_cursors: string
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: string | null
}

/** Fraction of the server's lock table that the jobs of all instances together may use. */
const shareOfLocks = 0.5
const minShare = 16

/**
 * Claims that lock each job with an advisory lock of the anchor's session, and do not write to the jobs' rows. A pooled
 * connection reads the jobs and their inputs, which takes longest. The anchor's session only locks the jobs, checks
 * that they are unchanged, and inserts the claim's row, so that its heartbeat is not delayed.
 */
export class AdvisoryClaims implements Claims {
  readonly mode = 'advisory'
  maxClaimed = minShare
  readonly #store: JobStore
  readonly #anchor: Anchor
  readonly #maintenance: Maintenance
  #session: Session | undefined
  /** IDs of the jobs that this session holds locks on. */
  #held = new Set<number>()
  #released: number[] = []
  #queue: Promise<unknown> = Promise.resolve()
  #token = Math.floor(Math.random() * 2 ** 40)

  constructor(store: JobStore, anchor: Anchor, maintenance: Maintenance) {
    this.#store = store
    this.#anchor = anchor
    this.#maintenance = maintenance
  }

  get room(): number {
    return this.maxClaimed - this.#held.size
  }

  /**
   * Claims jobs. Each instance runs one claim at a time. A session's own advisory locks do not block that session, so
   * the instance must know which jobs it has locked before it searches for free jobs.
   */
  claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult> {
    return this.#serialize(async () => {
      const session = this.#sessionOf(epoch)
      let look = await this.#findClaimable(asked)
      // These values from the first read also apply to the later reads, which continue from the first read's cursors.
      const { oldest, newest, last } = look
      const marks = { oldest, newest, last: Number(last) }
      for (;;) {
        const seen: readonly ClaimedRow[] = look.jobs === null ? [] : JSON.parse(look.jobs)
        const isAll = seen.length < asked.maxJobs
        if (seen.length === 0) return { ...marks, isAll, state: 'claimed', fence: 0, jobs: [], cursors: undefined }
        const [state, fence, taken] = await this.#lockJobs(session, asked.announces, seen)
        // A transaction that enqueues the same unique key has locked or changed this job. A later look-back must find
        // the job.
        if (seen.some((row) => row[8]?.unique && !taken.has(row[0]))) marks.oldest = null
        const cursors: number[] = JSON.parse(look.new_cursors)
        if (taken.size > 0 || isAll || state !== 'claimed') {
          return { ...marks, isAll, state, fence, jobs: seen.filter(([id]) => taken.has(id)), cursors }
        }
        // Other sessions have already locked all of these jobs. Continues the search after these jobs.
        look = await this.#findClaimable({ ...asked, starts: cursors })
      }
    })
  }

  seqOf({ seq }: HeldJob): number {
    return seq
  }

  release(jobs: readonly HeldJob[]): void {
    for (const { id, claim } of jobs) {
      if (claim.epoch === this.#session && this.#held.delete(id)) this.#released.push(id)
    }
    if (this.#released.length > 0) void this.#unlock()
  }

  async returnUnanswered(): Promise<void> {
    // Nothing to do: if a claim gets no response, the claim's locks end together with the session.
  }

  #sessionOf(epoch: Epoch): Session {
    const { session } = this.#anchor
    if (session === undefined || session !== epoch) throw epoch.loss ?? new Error('The epoch of this claim has ended')
    if (session !== this.#session) {
      this.#session = session
      this.#held = new Set()
      this.#released = []
    }
    return session
  }

  async #findClaimable({ queues, priorities, starts, kinds, maxJobs, looksBack }: ClaimRequest): Promise<ClaimableRow> {
    const levels = [arrayLiteral(queues), arrayLiteral(priorities), arrayLiteral(starts)]
    const [row] = await this.#store.run<ClaimableRow>('find_claimable', [...levels, kinds, maxJobs, looksBack])
    return row!
  }

  async #lockJobs(
    session: Session,
    announces: boolean,
    seen: readonly ClaimedRow[],
  ): Promise<[ClaimResult['state'], number, Set<number>]> {
    const ids = arrayLiteral(seen.map(([id]) => id))
    const seqs = arrayLiteral(seen.map(([id, , , seq = id]) => seq))
    const versions = arrayLiteral(seen.map((row) => row[10] ?? 'null'))
    try {
      const [row] = await session.run(this.#store.sql.claim_by_lock, [
        session.number,
        this.#token++,
        ids,
        seqs,
        versions,
        announces,
      ])
      const [state, fence, jobs, sessions, hasOrphans] = row as unknown as [
        ClaimResult['state'],
        string,
        string,
        number,
        boolean,
      ]
      if (sessions) this.maxClaimed = Math.max(minShare, Math.floor((session.lockBudget * shareOfLocks) / sessions))
      // The claim of a dead epoch contains a job whose lock is free. Maintenance must return this job to its queue.
      if (hasOrphans) this.#maintenance.runWithin(0)
      const taken = new Set<number>(jobs === null ? [] : JSON.parse(jobs))
      for (const id of taken) this.#held.add(id)
      return [state, Number(fence), taken]
    } catch (error) {
      // Releases the session-level locks that the failed statement had already acquired.
      await this.#unlockOthers(session)
      throw error
    }
  }

  async #unlock(): Promise<void> {
    const session = this.#session!
    const ids = this.#released
    this.#released = []
    try {
      await session.run(this.#store.sql.unlock, [arrayLiteral(ids)])
    } catch {
      if (session.trusted) await this.#serialize(() => this.#unlockOthers(session))
    }
  }

  /**
   * Releases all job locks of the session except the locks in `#held`. Retries until it succeeds or the session ends.
   */
  async #unlockOthers(session: Session): Promise<void> {
    for (let attempt = 0; session.trusted; attempt++) {
      try {
        await session.run(this.#store.sql.unlock_others, [arrayLiteral([...this.#held])])
        return
      } catch {
        await pause(backoffMs(attempt, 50, 1_000))
      }
    }
  }

  #serialize<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work)
    this.#queue = turn.catch(() => {})
    return turn
  }
}
