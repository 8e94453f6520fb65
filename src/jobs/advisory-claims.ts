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

/** Of the locks that the server was made for, jobs take this part, all instances together. */
const shareOfLocks = 0.5
const minShare = 16

/**
 * Claims that lock each job on the anchor's session, and write nothing on its row. What is slow, reading onward and
 * bringing the inputs, is done on a connection of the pool; the anchor, whose heartbeat must not wait, locks what was
 * found, looks whether it is still there, and writes the row of the claim.
 */
export class AdvisoryClaims implements Claims {
  readonly mode = 'advisory'
  maxClaimed = minShare
  readonly #store: JobStore
  readonly #anchor: Anchor
  readonly #maintenance: Maintenance
  #session: Session | undefined
  /** What is locked on this session. */
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
   * One at a time for the whole instance. A session does not exclude itself: it must know what it has before it reads what
   * nobody has.
   */
  claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult> {
    return this.#serialize(async () => {
      const session = this.#sessionOf(epoch)
      let look = await this.#findClaimable(asked)
      // Of the first look: what it says of the numbers below holds for those that go on from it, too.
      const { oldest, newest, last } = look
      const marks = { oldest, newest, last: Number(last) }
      for (;;) {
        const seen: readonly ClaimedRow[] = look.jobs === null ? [] : JSON.parse(look.jobs)
        const isAll = seen.length < asked.maxJobs
        if (seen.length === 0) return { ...marks, isAll, state: 'claimed', fence: 0, jobs: [], cursors: undefined }
        const [state, fence, taken] = await this.#lockJobs(session, asked.announces, seen)
        // Whoever enqueues the same key keeps it locked, or has just changed it; it must be found when they are done.
        if (seen.some((row) => row[8]?.unique && !taken.has(row[0]))) marks.oldest = null
        const cursors: number[] = JSON.parse(look.new_cursors)
        if (taken.size > 0 || isAll || state !== 'claimed') {
          return { ...marks, isAll, state, fence, jobs: seen.filter(([id]) => taken.has(id)), cursors }
        }
        // Others were quicker with all of them: on from there.
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
    // A claim whose answer does not arrive ends with the session that it was asked on.
  }

  #sessionOf(epoch: Epoch): Session {
    const { session } = this.#anchor
    if (session === undefined || session !== epoch) throw epoch.loss ?? new Error('Another epoch has begun')
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
      // A lock that is free although a claim has the job: whoever had it has died just now.
      if (hasOrphans) this.#maintenance.runWithin(0)
      const taken = new Set<number>(jobs === null ? [] : JSON.parse(jobs))
      for (const id of taken) this.#held.add(id)
      return [state, Number(fence), taken]
    } catch (error) {
      // A statement that fails keeps the session locks that it had got.
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

  /** Until it succeeds, or the session has ended and its locks with it. */
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
