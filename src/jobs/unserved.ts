import type { Events } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { JobDefinition } from './definition.js'
import type { Queues } from './queues.js'
import type { JobStore } from './store.js'

/** State of one job kind in one queue. */
interface Pair {
  readonly queue: string
  readonly kind: string
  /** Time of the next check. Undefined if no check is planned. */
  checkAt: number | undefined
  /** Enqueueing plans no further check before this time. */
  quietUntil: number
  /** Whether the last check found jobs that no worker claims. The next check then decides. */
  isSuspected: boolean
}

interface UnservedRow {
  readonly queue: string
  readonly kind: string
  readonly unserved: 'queue' | 'kind'
  readonly jobs: number
  readonly for_ms: number
}

const checkAfterMs = 20_000
/** Delay before the second check. A worker that restarts at the time of the first check is present again. */
const confirmAfterMs = 5_000
const quietMs = 300_000
/** Shorter than `quietMs`, because the transaction that enqueued the jobs may be open, or the jobs may be due later. */
const quietWithoutJobsMs = 60_000
/** Maximum number of pairs that one instance checks. */
const maxPairs = 1_000

/**
 * Finds this instance's jobs that no worker in the fleet handles, and emits `job.unserved`. The first job of a kind in
 * a queue plans a check, 20 seconds later. A second check 5 seconds later confirms the result. Afterwards, this pair is
 * not checked for 5 minutes. Nothing runs while nothing is enqueued, and the timer does not keep the process running.
 */
export class UnservedCheck {
  readonly #store: JobStore
  readonly #queues: Queues
  readonly #events: Events
  readonly #pairs = new Map<string, Map<string, Pair>>()
  #count = 0
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #isClosed = false

  constructor(store: JobStore, queues: Queues, events: Events) {
    this.#store = store
    this.#queues = queues
    this.#events = events
  }

  /** Plans a check, unless a check for this kind in this queue is planned or has run recently. */
  noteEnqueued({ queue, kind }: Pick<JobDefinition, 'queue' | 'kind'>): void {
    if (this.#isClosed || !this.#events.emitter('job.unserved')) return
    const pair = this.#pairs.get(queue)?.get(kind) ?? this.#add(queue, kind)
    if (!pair || pair.checkAt !== undefined) return
    const now = performance.now()
    if (now < pair.quietUntil) return
    pair.checkAt = now + checkAfterMs
    this.#plan(pair.checkAt)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #add(queue: string, kind: string): Pair | undefined {
    if (this.#count >= maxPairs) return undefined
    this.#count++
    const pair: Pair = { queue, kind, checkAt: undefined, quietUntil: 0, isSuspected: false }
    const kinds = this.#pairs.get(queue) ?? new Map<string, Pair>()
    this.#pairs.set(queue, kinds.set(kind, pair))
    return pair
  }

  /** Sets the timer, unless the current timer already fires by that time. */
  #plan(at: number): void {
    if (this.#isClosed || at >= this.#timerAt) return
    this.#timerAt = at
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#checkDue(), at - performance.now()).unref()
  }

  async #checkDue(): Promise<void> {
    this.#timerAt = Number.POSITIVE_INFINITY
    const planned = [...this.#pairs.values()].flatMap((kinds) => [...kinds.values()])
    // Adds 1 ms, because timers may fire up to 1 ms early.
    const now = performance.now() + 1
    const due = planned.filter(({ checkAt }) => checkAt !== undefined && checkAt <= now)
    if (due.length > 0) await this.#check(due)
    const next = Math.min(...planned.map(({ checkAt }) => checkAt ?? Number.POSITIVE_INFINITY))
    if (Number.isFinite(next)) this.#plan(next)
  }

  async #check(due: readonly Pair[]): Promise<void> {
    const keys = due.map(({ queue }) => this.#queues.keyOf(queue))
    let rows: UnservedRow[]
    try {
      rows = await this.#store.run<UnservedRow>('unserved', [arrayLiteral(keys), due.map(({ kind }) => kind)])
    } catch {
      // Checks again later. This check need not report the error, because workers and enqueueing report errors from the
      // same database.
      for (const pair of due) pair.checkAt = performance.now() + checkAfterMs
      return
    }
    for (const [at, pair] of due.entries()) {
      this.#decide(
        pair,
        rows.find(({ queue, kind }) => queue === keys[at] && kind === pair.kind),
      )
    }
  }

  #decide(pair: Pair, row: UnservedRow | undefined): void {
    const now = performance.now()
    pair.checkAt = undefined
    if (row && row.jobs > 0 && !pair.isSuspected) {
      pair.isSuspected = true
      pair.checkAt = now + confirmAfterMs
      return
    }
    pair.isSuspected = false
    pair.quietUntil = now + (row?.jobs === 0 ? quietWithoutJobsMs : quietMs)
    if (!row || row.jobs === 0 || this.#isClosed) return
    const { queue, kind } = pair
    const { unserved, jobs, for_ms } = row
    this.#events.emitter('job.unserved')?.({ kind, queue, unserved, jobs, forMs: Math.round(for_ms) })
  }
}
