import { isRetryable, retryUntilRecorded } from '../base/index.js'
import { arrayLiteral, sqlstateOf } from '../postgres/index.js'
import type { Claim, HeldJob } from './claims.js'
import type { JobsContext } from './context.js'
import { type RecordedError, toRecordedError } from './errors.js'
import type { FollowUps } from './follow-ups.js'
import type { JobStore } from './store.js'
import type { WorkerWakeup } from './worker-wakeup.js'

/** Outcome of an attempt that did not succeed. */
export interface Ending extends HeldJob {
  readonly state: 'cancelled' | 'discarded' | 'buried' | 'retried' | 'returned'
  readonly error: RecordedError | undefined
  readonly delayMs: number
  /** Whether the attempt counts as a failed attempt. */
  readonly failed: boolean
}

interface DoneEnding extends HeldJob {
  /** Result as JSON. Undefined if the handler returned nothing. */
  readonly result: string | undefined
}

export interface RecordResult {
  readonly recorded: unknown[] | null
  /**
   * Follow-up numbers, separated by commas. See `FollowUps`. The column name is a single word, so that no library
   * changes its case.
   */
  readonly numbers: string | null
  /** False if the follow-ups may wait for a short time. Undefined for other statements than `done`. */
  readonly urgent?: boolean | null
}

const maxPerStatement = 2_000

/**
 * Records the outcomes of attempts in batches. The claim's fencing token guards each outcome. While a statement is
 * running, new outcomes wait for the next batch. If a batch cannot be recorded, the worker retries until the process
 * ends. These retries are safe, because the database rejects outcomes for jobs that another worker owns.
 */
export class Endings {
  /** Number of outcomes that the database rejected because another worker had taken over the job. */
  refusedEnds = 0
  /** Error that currently prevents this worker from recording outcomes. */
  failure: { readonly error: unknown } | undefined
  readonly #store: JobStore
  readonly #followUps: FollowUps
  readonly #givingUp: AbortSignal
  readonly #wakeup: WorkerWakeup
  #done: DoneEnding[] = []
  #others: Ending[] = []
  /** Fencing tokens of claims whose jobs have all ended. */
  #emptied: number[] = []
  #unrecorded = 0
  readonly #awaited = new Map<number, () => void>()
  #running: Promise<void> | undefined
  #isScheduled = false

  constructor({ store, followUps }: JobsContext, givingUp: AbortSignal, wakeup: WorkerWakeup) {
    this.#store = store
    this.#followUps = followUps
    this.#givingUp = givingUp
    this.#wakeup = wakeup
  }

  get unrecorded(): number {
    return this.#unrecorded
  }

  done({ id, claim }: HeldJob, result: string | undefined): void {
    this.#done.push({ id, claim, result })
    this.#schedule(1)
  }

  end(ending: Ending): void {
    this.#others.push(ending)
    this.#schedule(1)
  }

  /** Returns a job to its queue. The attempt is not counted. */
  giveBack({ id, claim }: HeldJob): void {
    this.end({ id, claim, state: 'returned', error: undefined, delayMs: 0, failed: false })
  }

  /** Suspends a job at a step that waits. Returns false if another worker owns the job. */
  async suspend({ id, claim }: HeldJob, step: string): Promise<boolean> {
    const rows = await this.#retryUntilRecorded<RecordResult>('suspend', [id, claim.fence, step])
    if (rows === undefined) return false
    this.#followUps.add(rows[0]!.numbers)
    const isSuspended = rows[0]!.recorded!.length > 0
    if (!isSuspended) this.refusedEnds++
    return isSuspended
  }

  /** Resolves when the job's outcome has been recorded, or when it can no longer be recorded. */
  whenRecorded(id: number): Promise<void> {
    return new Promise((resolve) => this.#awaited.set(id, resolve))
  }

  /** Removes a job that another worker owns. Records no outcome. */
  drop(job: HeldJob): void {
    if (job.claim.epoch.trusted) this.recorded([job], [])
    // Keeps the claim in the database, because maintenance finds a dead epoch's jobs through their claim.
    else this.#detach([job])
  }

  /** Resolves when all outcomes have been recorded, or when recording has been abandoned. */
  async settled(): Promise<void> {
    while (this.#unrecorded > 0 && !this.#givingUp.aborted) {
      this.#schedule()
      await (this.#running ?? new Promise((resolve) => setImmediate(resolve)))
    }
  }

  /** Schedules the recording of `added` more outcomes. */
  #schedule(added = 0): void {
    this.#unrecorded += added
    if (this.#isScheduled || this.#running) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#running = this.#recordAll().finally(() => {
        this.#running = undefined
        // Checks again, because another outcome may have been added after the loop's last check.
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
      this.#wakeup.signalRoom()
    }
  }

  /** Removes finished jobs from their claims. When a claim's last job has ended, deletes the claim. */
  recorded(batch: readonly HeldJob[], forgotten: readonly number[]): void {
    this.#detach(batch)
    const before = this.#emptied.length
    for (const { claim } of batch) {
      if (--claim.unended === 0 && !forgotten.includes(claim.fence)) this.#emptied.push(claim.fence)
    }
    if (this.#emptied.length > before) this.#schedule(this.#emptied.length - before)
  }

  /** Releases jobs that this worker is no longer processing. */
  #detach(batch: readonly HeldJob[]): void {
    if (this.#awaited.size === 0) return
    for (const { id } of batch) {
      this.#awaited.get(id)?.()
      this.#awaited.delete(id)
    }
  }

  async #recordDone(batch: readonly DoneEnding[]): Promise<void> {
    if (batch.length === 0) return
    const emptied = emptiedBy(batch)
    // Sorts the jobs, so that two statements that lock the same jobs cannot deadlock.
    const sorted = [...batch].sort((a, b) => a.id - b.id)
    const hasResults = sorted.some(({ result }) => result !== undefined)
    const results = hasResults ? `[${sorted.map(({ result = '' }) => `[${result}]`).join(',')}]` : null
    const values = [
      arrayLiteral(sorted.map(({ id }) => id)),
      arrayLiteral(sorted.map(({ claim }) => claim.fence)),
      results,
      arrayLiteral(emptied),
    ]
    try {
      const rows = await this.#retryUntilRecorded<RecordResult>('done', values, hasResults)
      if (rows === undefined) return
      this.#followUps.add(rows[0]!.numbers, rows[0]!.urgent !== false)
      if (rows[0]!.recorded) this.refusedEnds += batch.length - rows[0]!.recorded.length
      this.recorded(batch, emptied)
    } catch (error) {
      // PostgreSQL has rejected one of the results. Splits the batch in half, so that the other outcomes are recorded.
      if (batch.length > 1) {
        const half = batch.length >> 1
        await this.#recordDone(batch.slice(0, half))
        return this.#recordDone(batch.slice(half))
      }
      const [{ id, claim }] = batch as [DoneEnding]
      const ending = {
        id,
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
    const asked = JSON.stringify(sorted.map(endingFor))
    let rows: RecordResult[] | undefined
    try {
      rows = await this.#retryUntilRecorded<RecordResult>(
        'end',
        [asked, arrayLiteral([...emptiedBefore, ...emptied])],
        mayBeRefused,
      )
    } catch (error) {
      // PostgreSQL has rejected one of the values. Splits the batch in half, so that the other outcomes are recorded.
      if (batch.length > 1) {
        const half = batch.length >> 1
        await this.#recordOthers(batch.slice(0, half), emptiedBefore)
        return this.#recordOthers(batch.slice(half))
      }
      const plain = batch.map((ending) => ({ ...ending, error: toRecordedError(error) }))
      return this.#recordOthers(plain, emptiedBefore, false)
    }
    if (rows === undefined) return
    this.#followUps.add(rows[0]!.numbers)
    this.refusedEnds += batch.length - rows[0]!.recorded!.length
    this.recorded(batch, emptied)
  }

  /** Retries the statement until it succeeds. With `mayBeRefused`, throws errors that a retry cannot fix. */
  async #retryUntilRecorded<Row>(
    name: 'done' | 'end' | 'suspend',
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
      // The outcome may have been recorded even if the response was lost.
      this.#followUps.recheck()
      // Also retries after other errors, because an operator may grant missing privileges or correct wrong settings.
      if (mayBeRefused && /^(22|54)/.test(sqlstateOf(error) ?? '')) throw error
      return isRetryable(error) ? 2_000 : 30_000
    })
  }
}

/**
 * Returns the fencing tokens of claims that have no jobs left after this batch. The statement that records the outcomes
 * also deletes these claims. The claims must not be deleted earlier, because maintenance finds a dead worker's jobs
 * through the worker's claims.
 */
function emptiedBy(batch: readonly HeldJob[]): number[] {
  const ended = new Map<Claim, number>()
  for (const { claim } of batch) ended.set(claim, (ended.get(claim) ?? 0) + 1)
  return [...ended].filter(([claim, count]) => claim.unended === count).map(([claim]) => claim.fence)
}

/** Returns an element of the JSON list that `job_end` expects. */
export function endingFor({ id, claim, state, error, delayMs, failed }: Ending): object {
  return { id, fence: claim.fence, state, error, delay_ms: Math.ceil(delayMs), failed: failed ? 1 : 0 }
}
