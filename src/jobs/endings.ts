import { isRetryable, retryUntilRecorded } from '../base/index.js'
import { arrayLiteral, sqlstateOf } from '../postgres/index.js'
import type { Claim } from './claims.js'
import { type Claims, type HeldJob, seqsOf } from './claims.js'
import { type RecordedError, toRecordedError } from './errors.js'
import type { FollowUps } from './follow-ups.js'
import type { JobStore } from './store.js'

/** How an attempt ends, but for the usual way. */
export interface Ending extends HeldJob {
  readonly state: 'cancelled' | 'discarded' | 'buried' | 'retried' | 'returned'
  readonly error: RecordedError | undefined
  readonly delayMs: number
  /** Whether it counts as a failed attempt. */
  readonly failed: boolean
}

interface DoneEnding extends HeldJob {
  /** JSON; undefined for nothing. */
  readonly result: string | undefined
}

/** What job_done and job_end answer. */
export interface RecordResult {
  readonly recorded: unknown[] | null
  /** See `LooseEnds`. */
  readonly follow_ups: string | null
}

const maxPerStatement = 2_000

/**
 * Records the ends of attempts, many in one statement, each fenced by its claim. While a batch is under way the next one
 * gathers. A batch that cannot be recorded is tried again for as long as the process lives: until then nobody else can
 * have the jobs, or somebody has, and then the record is refused.
 */
export class Endings {
  /** How many were refused, because their job had been taken over. */
  refusedEnds = 0
  /** Why ends cannot be recorded at present. */
  failure: { readonly error: unknown } | undefined
  readonly #store: JobStore
  readonly #claims: Claims
  readonly #givingUp: AbortSignal
  readonly #followUps: FollowUps
  readonly #onRecorded: () => void
  #done: DoneEnding[] = []
  #others: Ending[] = []
  /** The fences of claims of which nothing is left. */
  #emptied: number[] = []
  #unrecorded = 0
  readonly #awaited = new Map<number, () => void>()
  #running: Promise<void> | undefined
  #isScheduled = false

  constructor(store: JobStore, claims: Claims, followUps: FollowUps, givingUp: AbortSignal, onRecorded: () => void) {
    this.#store = store
    this.#claims = claims
    this.#followUps = followUps
    this.#givingUp = givingUp
    this.#onRecorded = onRecorded
  }

  /** How many are not recorded yet. */
  get unrecorded(): number {
    return this.#unrecorded
  }

  done({ id, seq, claim }: HeldJob, result: string | undefined): void {
    this.#done.push({ id, seq, claim, result })
    this.#added()
  }

  end(ending: Ending): void {
    this.#others.push(ending)
    this.#added()
  }

  /** It may run elsewhere, and the attempt does not count. */
  giveBack({ id, seq, claim }: HeldJob): void {
    this.end({ id, seq, claim, state: 'returned', error: undefined, delayMs: 0, failed: false })
  }

  /** Resolves when the end of this job is recorded, or nothing of it will be. */
  whenRecorded(id: number): Promise<void> {
    return new Promise((resolve) => this.#awaited.set(id, resolve))
  }

  /** The job is somebody else's: nothing of it will be recorded. */
  drop(job: HeldJob): void {
    if (job.claim.epoch.trusted) this.recorded([job], [])
    // Of an epoch that is over, whoever takes over finds the job by the claim: it must stay, whatever else of it ends here.
    else this.#detach([job])
  }

  /** Resolves when nothing is left to record, or it was given up. */
  async settled(): Promise<void> {
    while (this.#unrecorded > 0 && !this.#givingUp.aborted) {
      this.#schedule()
      await (this.#running ?? new Promise((resolve) => setImmediate(resolve)))
    }
  }

  #added(count = 1): void {
    this.#unrecorded += count
    if (this.#running === undefined) this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#running) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#running = this.#recordAll().finally(() => {
        this.#running = undefined
        // What came when it had looked for the last time.
        if (this.#unrecorded > 0 && !this.#givingUp.aborted) this.#schedule()
      })
    })
  }

  async #recordAll(): Promise<void> {
    while (this.#unrecorded > 0 && !this.#givingUp.aborted) {
      const done = this.#done.splice(0, maxPerStatement)
      const others = this.#others.splice(0, maxPerStatement)
      const emptied = this.#emptied.splice(0, maxPerStatement)
      await Promise.all([this.#recordDone(done), this.#recordOthers(others, emptied)])
      this.#unrecorded -= done.length + others.length + emptied.length
      this.#onRecorded()
    }
  }

  /** They have left their claims. A claim is forgotten with the last of its jobs, whichever statement recorded that. */
  recorded(batch: readonly HeldJob[], forgotten: readonly number[]): void {
    this.#detach(batch)
    const before = this.#emptied.length
    for (const { claim } of batch) {
      if (--claim.unended === 0 && !forgotten.includes(claim.fence)) this.#emptied.push(claim.fence)
    }
    if (this.#emptied.length > before) this.#added(this.#emptied.length - before)
  }

  /** Nothing more of them will come from here. */
  #detach(batch: readonly HeldJob[]): void {
    this.#claims.release(batch)
    if (this.#awaited.size === 0) return
    for (const { id } of batch) {
      this.#awaited.get(id)?.()
      this.#awaited.delete(id)
    }
  }

  async #recordDone(batch: readonly DoneEnding[]): Promise<void> {
    if (batch.length === 0) return
    const emptied = emptiedBy(batch)
    // In one order everywhere, so that statements which touch the same jobs cannot deadlock.
    const sorted = [...batch].sort((a, b) => a.id - b.id)
    const hasResults = sorted.some(({ result }) => result !== undefined)
    const results = hasResults ? `[${sorted.map(({ result = '' }) => `[${result}]`).join(',')}]` : null
    const values = [
      arrayLiteral(sorted.map(({ id }) => id)),
      arrayLiteral(sorted.map(({ claim }) => claim.fence)),
      seqsOf(this.#claims, sorted),
      results,
      arrayLiteral(emptied),
    ]
    try {
      const rows = await this.#retryUntilRecorded<RecordResult>('done', values, hasResults)
      if (rows === undefined) return
      this.#followUps.add(rows[0]!.follow_ups)
      if (rows[0]!.recorded) this.refusedEnds += batch.length - rows[0]!.recorded.length
      this.recorded(batch, emptied)
    } catch (error) {
      // The database does not take one of the results: the others must not suffer from it.
      if (batch.length > 1) {
        const half = batch.length >> 1
        await this.#recordDone(batch.slice(0, half))
        return this.#recordDone(batch.slice(half))
      }
      const [{ id, seq, claim }] = batch as [DoneEnding]
      const ending = {
        id,
        seq,
        claim,
        state: 'buried',
        error: toRecordedError(error),
        delayMs: 0,
        failed: true,
      } as const
      await this.#recordOthers([ending])
    }
  }

  async #recordOthers(
    batch: readonly Ending[],
    emptiedBefore: readonly number[] = [],
    mayBeRefused = true,
  ): Promise<void> {
    if (batch.length + emptiedBefore.length === 0) return
    const emptied = emptiedBy(batch)
    const sorted = [...batch].sort((a, b) => a.id - b.id)
    const values = [
      JSON.stringify(sorted.map((ending) => endingFor(this.#claims, ending))),
      unstamped(this.#claims, batch),
    ]
    let rows: RecordResult[] | undefined
    try {
      rows = await this.#retryUntilRecorded<RecordResult>(
        'end',
        [...values, arrayLiteral([...emptiedBefore, ...emptied])],
        mayBeRefused,
      )
    } catch (error) {
      // The database does not take what one of them says: the others must not suffer from it.
      if (batch.length > 1) {
        const half = batch.length >> 1
        await this.#recordOthers(batch.slice(0, half), emptiedBefore)
        return this.#recordOthers(batch.slice(half))
      }
      const plain = batch.map((ending) => ({ ...ending, error: toRecordedError(error) }))
      return this.#recordOthers(plain, emptiedBefore, false)
    }
    if (rows === undefined) return
    this.#followUps.add(rows[0]!.follow_ups)
    this.refusedEnds += batch.length - rows[0]!.recorded!.length
    this.recorded(batch, emptied)
  }

  /** Tries until it succeeds; `mayBeRefused`: or until the server says that it never will. */
  async #retryUntilRecorded<Row>(
    name: 'done' | 'end',
    values: readonly unknown[],
    mayBeRefused = false,
  ): Promise<Row[] | undefined> {
    const record = async () => {
      if (this.#givingUp.aborted) return undefined
      const rows = await this.#store.run<Row>(name, values)
      this.failure = undefined
      return rows
    }
    return retryUntilRecorded(this.#givingUp, record, (error) => {
      this.failure = { error }
      // It may have been recorded, and its answer lost.
      this.#followUps.recheck()
      // After any other error: missing rights and wrong settings are also corrected at some time.
      if (mayBeRefused && /^(22|54)/.test(sqlstateOf(error) ?? '')) throw error
      return isRetryable(error) ? 2_000 : 30_000
    })
  }
}

/**
 * The claims of which nothing is left when these are recorded: the same statement forgets them. Not sooner: a claim leads
 * to the jobs of a dead worker, also to those whose record is under way.
 */
function emptiedBy(batch: readonly HeldJob[]): number[] {
  const ended = new Map<Claim, number>()
  for (const { claim } of batch) ended.set(claim, (ended.get(claim) ?? 0) + 1)
  return [...ended].filter(([claim, count]) => claim.unended === count).map(([claim]) => claim.fence)
}

/** As job_end reads it. */
export function endingFor(claims: Claims, ending: Ending): object {
  const { id, claim, state, error, delayMs, failed } = ending
  const seq = claims.seqOf(ending)
  return { id, fence: claim.fence, seq, state, error, delay_ms: Math.ceil(delayMs), failed: failed ? 1 : 0 }
}

/** The claims that wrote nothing on the rows of these jobs. */
export function unstamped(claims: Claims, batch: readonly HeldJob[]): string {
  const fences = batch.filter((job) => claims.seqOf(job) !== undefined).map(({ claim }) => claim.fence)
  return arrayLiteral([...new Set(fences)])
}
