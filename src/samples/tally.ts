import type { EndReason } from './end-reason.js'

/** One grant of a name to this instance, for as long as anybody in it relies on it. */
export interface Term {
  readonly key: string
  readonly fence: number
  readonly kind: 'lock' | 'lease'
  readonly mode: 'exclusive' | 'shared'
  /** Whether it is a leadership. */
  readonly isLeadership: boolean
  readonly beganAt: number
  /** How many handles: readers of one process share a grant, and so does who knows the token of a lease. */
  handles: number
  /** Whether it stands in the database already. */
  isRecorded: boolean
  endedAt: number | undefined
  why: EndReason | undefined
}

export type Grant = Pick<Term, 'key' | 'fence' | 'kind' | 'mode' | 'isLeadership'>

/** One name, since the minute began. */
interface NameCount {
  readonly key: string
  /** The grants that this instance has now. */
  readonly open: Term[]
  /** How many of its calls wait now. */
  waiting: number
  heldMs: number
  waitedMs: number
  /** Until when both are counted. */
  countedTo: number
}

/** What a minute came to. */
export interface Minute {
  readonly beganAt: number
  readonly endedAt: number
  /** Those that were held or waited for, in tenths of a second; what was waited for most first, then what was held most. */
  readonly names: readonly { readonly key: string; readonly held: number; readonly waited: number }[]
}

const minuteMs = 60_000
const tenthMs = 100
/** So many names are counted at once, and so many of a minute are told of. */
const maxCounted = 10_000
const maxRecorded = 1_000
/** A smallint has no room for more. */
const maxTenths = 32_767
/** Shorter terms are told of only when they are leaderships. */
const minTermMs = 1_000
/** So many terms are told of in a minute; so many that have ended are kept until then. */
const maxTerms = 100
const maxEnded = 1_000
/** What could not be told for longer is lost. */
const maxMinutes = 2

/**
 * Counts, in memory, for how long each name was held and waited for, minute by minute, and remembers the terms to tell of. Time
 * is that of `performance.now()`; where its minutes begin is said by the clock of the database, once it is known.
 */
export class Tally {
  readonly #names = new Map<string, NameCount>()
  #minutes: Minute[] = []
  #ended: Term[] = []
  #beganAt = 0
  #endsAt = 0
  /** No further name is counted before the next minute. */
  #isFull = false
  /** By how much the clock of the database is ahead of ours. */
  #aheadMs = Date.now() - performance.now()

  /** When the present minute ends. */
  get endsAt(): number {
    return this.#endsAt
  }

  /** Whether nothing is held, waited for, or to be told. */
  get isEmpty(): boolean {
    return this.#names.size === 0 && this.#minutes.length === 0 && this.#ended.length === 0
  }

  /** What the clock of the database showed at a moment of ours. Counts from the next minute on. */
  setClock(nowMs: number, at: number): void {
    this.#aheadMs = nowMs - at
  }

  termStarted({ key, fence, kind, mode, isLeadership }: Grant, at: number): void {
    const counted = this.#count(key, at)
    if (!counted) return
    const same = counted.open.find((term) => term.fence === fence)
    if (same) same.handles++
    // Written out: this is done for every lock, and to spread the grant would take longer than all the rest.
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
    // What was not counted when it began is unknown here.
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

  /** The minutes that are over, which are then forgotten. With `isLast` also what there is of the present one. */
  removeMinutes(at: number, isLast = false): Minute[] {
    this.#closeMinutes(at)
    if (isLast && this.#names.size > 0) this.#closeMinute(at)
    const minutes = this.#minutes
    this.#minutes = []
    return minutes
  }

  /**
   * The terms to tell of now, open ones among them, leaderships and then the longest first. They count as told until `takeBack`
   * says that they are not.
   */
  termsToRecord(at: number): Term[] {
    const open = [...this.#names.values()].flatMap((counted) =>
      counted.open.filter((term) => !term.isRecorded && (term.isLeadership || at - term.beganAt >= minTermMs)),
    )
    const terms = byPriority([...this.#ended, ...open], at).slice(0, maxTerms)
    // What the database believes to be open must be told of some time; others that have ended were too many.
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

  /** The count of a name, up to now; undefined when there are too many. */
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

  /** Forgets names that came to less than a tenth of a second. */
  #makeRoom(at: number): void {
    for (const counted of this.#names.values()) {
      countTo(counted, at)
      if (isIdle(counted) && tenths(counted.heldMs) + tenths(counted.waitedMs) === 0) this.#names.delete(counted.key)
    }
    // To look again and again for little room would cost more than the names are worth.
    this.#isFull = this.#names.size > maxCounted * 0.9
  }

  /** Closes the minutes that are over. */
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

/** What the database believes to be open, leaderships, and then the longest. */
function byPriority(terms: Term[], at: number): Term[] {
  const rank = ({ isRecorded, isLeadership }: Term) => (isRecorded ? 2 : 0) + (isLeadership ? 1 : 0)
  const lastedMs = ({ beganAt, endedAt = at }: Term) => endedAt - beganAt
  return terms.sort((a, b) => rank(b) - rank(a) || lastedMs(b) - lastedMs(a))
}
