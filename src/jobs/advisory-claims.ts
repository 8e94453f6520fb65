import { backoffMs, pause } from '../base/index.js'
import { type Anchor, arrayOf, type Life, type Session } from '../postgres/index.js'
import type { ClaimRequest, Claims, Found, Held, Row } from './claims.js'
import type { Ledger } from './ledger.js'
import type { Rounds } from './rounds.js'

interface LookRow {
  readonly jobs: string | null
  readonly passed: string
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: string | null
}

/** Of the locks that the server was made for, jobs take this part, all instances together. */
const shareOfLocks = 0.5
const leastShare = 16

/**
 * Claims that lock each job on the anchor's session, and write nothing on its row. What is slow, reading onward and
 * bringing the inputs, is done on a connection of the pool; the anchor, whose heartbeat must not wait, locks what was
 * found, looks whether it is still there, and writes the row of the claim.
 */
export class AdvisoryClaims implements Claims {
  readonly way = 'advisory'
  most = leastShare
  readonly #ledger: Ledger
  readonly #anchor: Anchor
  readonly #rounds: Rounds
  #session: Session | undefined
  /** What is locked on this session. */
  #held = new Set<number>()
  #released: number[] = []
  #turn: Promise<unknown> = Promise.resolve()
  #token = Math.floor(Math.random() * 2 ** 40)

  constructor(ledger: Ledger, anchor: Anchor, rounds: Rounds) {
    this.#ledger = ledger
    this.#anchor = anchor
    this.#rounds = rounds
  }

  get room(): number {
    return this.most - this.#held.size
  }

  /**
   * One at a time for the whole instance. A session does not exclude itself: it must know what it has before it reads what
   * nobody has.
   */
  claim(life: Life, asked: ClaimRequest): Promise<Found> {
    return this.#inTurn(async () => {
      const session = this.#sessionOf(life)
      let look = await this.#look(asked)
      // Of the first look: what it says of the numbers below holds for those that go on from it, too.
      const { oldest, newest, last } = look
      const marks = { oldest, newest, last: Number(last) }
      for (;;) {
        const seen: readonly Row[] = look.jobs === null ? [] : JSON.parse(look.jobs)
        const isAll = seen.length < asked.most
        if (seen.length === 0) return { ...marks, isAll, state: 'claimed', fence: 0, jobs: [], passed: undefined }
        const [state, fence, taken] = await this.#take(session, asked.announces, seen)
        // Whoever enqueues the same key keeps it locked, or has just changed it; it must be found when they are done.
        if (seen.some((row) => row[8]?.unique && !taken.has(row[0]))) marks.oldest = null
        const passed: number[] = JSON.parse(look.passed)
        if (taken.size > 0 || isAll || state !== 'claimed') {
          return { ...marks, isAll, state, fence, jobs: seen.filter(([id]) => taken.has(id)), passed }
        }
        // Others were quicker with all of them: on from there.
        look = await this.#look({ ...asked, starts: passed })
      }
    })
  }

  placeOf({ seq }: Held): number {
    return seq
  }

  release(jobs: readonly Held[]): void {
    for (const { id, claim } of jobs) {
      if (claim.life === this.#session && this.#held.delete(id)) this.#released.push(id)
    }
    if (this.#released.length > 0) void this.#unlock()
  }

  async giveBackUnknown(): Promise<void> {
    // A claim whose answer does not arrive ends with the session that it was asked on.
  }

  #sessionOf(life: Life): Session {
    const { session } = this.#anchor
    if (session === undefined || session !== life) throw life.loss ?? new Error('Another life has begun')
    if (session !== this.#session) {
      this.#session = session
      this.#held = new Set()
      this.#released = []
    }
    return session
  }

  async #look({ queues, priorities, starts, kinds, most, looksBack }: ClaimRequest): Promise<LookRow> {
    const levels = [arrayOf(queues), arrayOf(priorities), arrayOf(starts)]
    const [row] = await this.#ledger.run<LookRow>('look', [...levels, kinds, most, looksBack])
    return row!
  }

  async #take(
    session: Session,
    announces: boolean,
    seen: readonly Row[],
  ): Promise<[Found['state'], number, Set<number>]> {
    const ids = arrayOf(seen.map(([id]) => id))
    const seqs = arrayOf(seen.map(([id, , , seq = id]) => seq))
    const versions = arrayOf(seen.map((row) => row[10] ?? 'null'))
    try {
      const [row] = await session.run(this.#ledger.sql.take, [
        session.number,
        this.#token++,
        ids,
        seqs,
        versions,
        announces,
      ])
      const [state, fence, jobs, lives, hasOrphans] = row as unknown as [
        Found['state'],
        string,
        string,
        number,
        boolean,
      ]
      if (lives) this.most = Math.max(leastShare, Math.floor((session.lockBudget * shareOfLocks) / lives))
      // A lock that is free although a claim has the job: whoever had it has died just now.
      if (hasOrphans) this.#rounds.soon(0)
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
      await session.run(this.#ledger.sql.unlock, [arrayOf(ids)])
    } catch {
      if (session.trusted) await this.#inTurn(() => this.#unlockOthers(session))
    }
  }

  /** Until it succeeds, or the session has ended and its locks with it. */
  async #unlockOthers(session: Session): Promise<void> {
    for (let attempt = 0; session.trusted; attempt++) {
      try {
        await session.run(this.#ledger.sql.unlock_others, [arrayOf([...this.#held])])
        return
      } catch {
        await pause(backoffMs(attempt, 50, 1_000))
      }
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work)
    this.#turn = turn.catch(() => {})
    return turn
  }
}
