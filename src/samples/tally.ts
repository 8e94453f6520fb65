import type { EndReason } from './end-reason.js'

/** One grant of a name to this instance. The grant lasts until its last handle ends. */
export interface Term {
  readonly key: string
  readonly fence: number
  readonly kind: 'lock' | 'lease'
  readonly mode: 'exclusive' | 'shared'
  readonly isLeadership: boolean
  readonly beganAt: number
  /** Number of handles. Readers in one process share a grant. Holders of the same lease token also share a grant. */
  handles: number
  /** Whether the term has been written to the database. */
  isRecorded: boolean
  endedAt: number | undefined
  why: EndReason | undefined
}

export type Grant = Pick<Term, 'key' | 'fence' | 'kind' | 'mode' | 'isLeadership'>

/** Counters for one name in the current minute. */
interface NameCount {
  readonly key: string
  /** This instance's current grants. */
  readonly open: Term[]
  /** Number of waiting calls. */
  waiting: number
  heldMs: number
  waitedMs: number
  /** Time up to which `heldMs` and `waitedMs` have been counted. */
  countedTo: number
}

/** Counters for one complete minute. */
export interface Minute {
  readonly beganAt: number
  readonly endedAt: number
  /** Hold and wait times in tenths of a second. Sorted by wait and then by hold, longest first. */
  readonly names: readonly { readonly key: string; readonly held: number; readonly waited: number }[]
}

const minuteMs = 60_000
const tenthMs = 100
/** Maximum number of names in memory (`maxCounted`), and of names written per minute (`maxRecorded`). */
const maxCounted = 10_000
const maxRecorded = 1_000
/** Maximum value of a smallint column. */
const maxTenths = 32_767
/** Minimum duration of a term that is written. Leaderships have no minimum duration. */
const minTermMs = 1_000
/**
 * Maximum number of terms written per minute (`maxTerms`), and of ended terms that are waiting to be written
 * (`maxEnded`).
 */
const maxTerms = 100
const maxEnded = 1_000
/** Maximum number of unwritten minutes that are kept. */
const maxMinutes = 2

/**
 * Counts in memory how long each name is held and waited for per minute, and collects the terms to write. Times are
 * values of `performance.now()`. Once the database's clock is known, minutes begin on that clock.
 */
export class Tally {
  readonly #names = new Map<string, NameCount>()
  #minutes: Minute[] = []
  #ended: Term[] = []
  #beganAt = 0
  #endsAt = 0
  /** Whether new names are ignored until the next minute. */
  #isFull = false
  /** Difference between the database's clock and `performance.now()`. */
  #aheadMs = Date.now() - performance.now()

  /** End of the current minute. */
  get endsAt(): number {
    return this.#endsAt
  }

  /** Whether no name is held or waited for, and no data is left to write. */
  get isEmpty(): boolean {
    return this.#names.size === 0 && this.#minutes.length === 0 && this.#ended.length === 0
  }

  /** Records the database's clock at the local time `at`. The new value takes effect in the next minute. */
  setClock(nowMs: number, at: number): void {
    this.#aheadMs = nowMs - at
  }

  termStarted({ key, fence, kind, mode, isLeadership }: Grant, at: number): void {
    const counted = this.#count(key, at)
    if (!counted) return
    const same = counted.open.find((term) => term.fence === fence)
    if (same) same.handles++
    // Avoids an object spread, which would cost more than the rest of this function.
    else {
      counted.open.push({
        key,
        fence,
        kind,
        mode,
        isLeadership,
        beganAt: at,
        handles: 1,
        isRecorded: false,
        endedAt: undefined,
        why: undefined,
      })
    }
  }

  termEnded(key: string, fence: number, why: EndReason, at: number): void {
    // Ignores the end of a term whose name was not counted at the start of the term.
    if (!this.#names.has(key)) return
    const counted = this.#count(key, at)!
    const index = counted.open.findIndex((term) => term.fence === fence)
    const term = counted.open[index]
    if (!term || --term.handles > 0) return
    if (index === counted.open.length - 1) counted.open.pop()
    else counted.open.splice(index, 1)
    if (!term.isRecorded && !term.isLeadership && at - term.beganAt < minTermMs) return
    term.endedAt = at
    term.why = why
    this.#ended.push(term)
    if (this.#ended.length > maxEnded * 2) this.#ended = byPriority(this.#ended, at).slice(0, maxEnded)
  }

  waitersChanged(key: string, by: 1 | -1, at: number): void {
    if (by < 0 && !this.#names.get(key)?.waiting) return
    const counted = this.#count(key, at)
    if (counted) counted.waiting += by
  }

  /** Returns and removes the complete minutes. With `isLast`, also returns and removes the current minute. */
  removeMinutes(at: number, isLast = false): Minute[] {
    this.#closeMinutes(at)
    if (isLast && this.#names.size > 0) this.#closeMinute(at)
    const minutes = this.#minutes
    this.#minutes = []
    return minutes
  }

  /**
   * Returns the terms to write now, sorted by priority. These terms count as written until `markUnrecorded` is called.
   */
  termsToRecord(at: number): Term[] {
    const open = [...this.#names.values()].flatMap((counted) =>
      counted.open.filter((term) => !term.isRecorded && (term.isLeadership || at - term.beganAt >= minTermMs)),
    )
    const terms = byPriority([...this.#ended, ...open], at).slice(0, maxTerms)
    // Keeps ended terms that are still open in the database, and drops other ended terms beyond the limit.
    this.#ended = this.#ended.filter((term) => term.isRecorded && !terms.includes(term))
    for (const term of terms) term.isRecorded = true
    return terms
  }

  markUnrecorded(terms: readonly Term[]): void {
    for (const term of terms) {
      if (term.endedAt === undefined) term.isRecorded = false
      else this.#ended.push(term)
    }
  }

  /** Returns a name's counters up to now. Returns undefined if too many names are already counted. */
  #count(key: string, at: number): NameCount | undefined {
    if (at >= this.#endsAt) this.#closeMinutes(at)
    let counted = this.#names.get(key)
    if (counted) {
      countTo(counted, at)
      return counted
    }
    if (!this.#isFull && this.#names.size >= maxCounted) this.#makeRoom(at)
    if (this.#isFull) return undefined
    counted = { key, open: [], waiting: 0, heldMs: 0, waitedMs: 0, countedTo: at }
    this.#names.set(key, counted)
    return counted
  }

  /** Removes idle names whose times are less than a tenth of a second. */
  #makeRoom(at: number): void {
    for (const counted of this.#names.values()) {
      countTo(counted, at)
      if (isIdle(counted) && tenths(counted.heldMs) + tenths(counted.waitedMs) === 0) this.#names.delete(counted.key)
    }
    // Prevents repeated scans that would free little space.
    this.#isFull = this.#names.size > maxCounted * 0.9
  }

  #closeMinutes(at: number): void {
    while (at >= this.#endsAt && this.#names.size > 0) this.#closeMinute(this.#endsAt)
    if (at < this.#endsAt) return
    this.#beginAt(at)
  }

  #closeMinute(at: number): void {
    const names: { key: string; held: number; waited: number }[] = []
    for (const counted of this.#names.values()) {
      countTo(counted, at)
      const [held, waited] = [tenths(counted.heldMs), tenths(counted.waitedMs)]
      if (held + waited > 0) names.push({ key: counted.key, held, waited })
      if (isIdle(counted)) this.#names.delete(counted.key)
      counted.heldMs = 0
      counted.waitedMs = 0
    }
    names.sort((a, b) => b.waited - a.waited || b.held - a.held)
    if (names.length > 0) {
      this.#minutes.push({ beganAt: this.#beganAt, endedAt: at, names: names.slice(0, maxRecorded) })
      this.#minutes = this.#minutes.slice(-maxMinutes)
    }
    this.#beginAt(at)
  }

  #beginAt(at: number): void {
    this.#beganAt = at
    this.#endsAt = at + minuteMs - ((at + this.#aheadMs) % minuteMs)
    this.#isFull = false
  }
}

function countTo(counted: NameCount, at: number): void {
  const ms = at - counted.countedTo
  if (counted.open.length > 0) counted.heldMs += ms
  counted.waitedMs += counted.waiting * ms
  counted.countedTo = at
}

function isIdle({ open, waiting }: NameCount): boolean {
  return open.length === 0 && waiting === 0
}

function tenths(ms: number): number {
  return Math.min(maxTenths, Math.round(ms / tenthMs))
}

/**
 * Compares terms by priority: first terms that are still open in the database, then leaderships, then the longest
 * terms.
 */
function byPriority(terms: Term[], at: number): Term[] {
  const rank = ({ isRecorded, isLeadership }: Term) => (isRecorded ? 2 : 0) + (isLeadership ? 1 : 0)
  const lastedMs = ({ beganAt, endedAt = at }: Term) => endedAt - beganAt
  return terms.sort((a, b) => rank(b) - rank(a) || lastedMs(b) - lastedMs(a))
}
