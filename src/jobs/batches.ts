import { defaultTimes, describe, duration, isError, readOptions, UsageError, wholeNumber } from '../base/index.js'
import type { Batch, BatchHandler, BatchJob, JobContext } from './definition.js'
import { NonRetryableError } from './errors.js'

const rules = { size: wholeNumber(1, 1_000), wait: duration(0, 3_600_000) }

export function readBatch(given: unknown, run: BatchHandler<unknown, unknown>): Batch {
  const { size, wait = defaultTimes.batchWaitMs } = readOptions('batch', given, rules)
  if (size === undefined) {
    throw new UsageError('Expected batch.size, got none', 'Example: { batch: { size: 100, wait: "50ms" } }')
  }
  return Object.freeze({ size, waitMs: wait, run })
}

/** Returns a handler that runs the batch handler for a single job. */
export function runAlone(batch: Batch): (input: unknown, job: JobContext) => Promise<unknown> {
  return async (input, job) => {
    const [answer] = await runHandler(batch, [toBatchJob(job, input)])
    if (isError(answer)) throw answer
    return answer
  }
}

/**
 * Returns a job object for a batch handler. The object has no `tx`, because one batch's transactions could use up all
 * connections.
 */
export function toBatchJob(job: JobContext, input: unknown): BatchJob {
  const { id, kind, attempt, meta, fence, progress, log } = job
  return {
    id,
    kind,
    input,
    attempt,
    meta,
    fence,
    progress,
    log,
    get signal() {
      return job.signal
    },
  }
}

/** Calls the batch handler and returns one value for each job. */
export async function runHandler({ run }: Batch, jobs: readonly BatchJob[]): Promise<readonly unknown[]> {
  const answers = await run(jobs)
  if (answers === undefined) return jobs.map(() => undefined)
  if (Array.isArray(answers) && answers.length === jobs.length) return answers
  const got = Array.isArray(answers) ? `${answers.length}` : describe(answers)
  // The error is not retryable, because another attempt would repeat the work and return the same value.
  throw new NonRetryableError(`Expected the batch handler to return nothing or ${jobs.length} results, got ${got}`)
}

interface Batchable {
  readonly definition: { readonly kind: string; readonly batch?: Batch | undefined }
}

/** Collects jobs until a batch is full or its wait time has passed. */
export class BatchBuffer<Job extends Batchable> {
  readonly #onReady: () => void
  readonly #kinds = new Map<string, { readonly jobs: Job[]; isOver: boolean; timer: NodeJS.Timeout | undefined }>()
  #size = 0

  /** `onReady` is called when a batch's wait time has passed. */
  constructor(onReady: () => void) {
    this.#onReady = onReady
  }

  get size(): number {
    return this.#size
  }

  /**
   * Number of collected jobs, of which `perSlot` fill a slot. Jobs of a larger batch count as a part of one. They use no
   * slot yet, and more jobs can join them.
   */
  countBy(perSlot: number): number {
    let count = 0
    for (const { jobs } of this.#kinds.values())
      count += Math.floor((jobs.length * perSlot) / jobs[0]!.definition.batch!.size)
    return count
  }

  add(job: Job): void {
    const { kind, batch } = job.definition
    const waitMs = batch!.waitMs
    let gathered = this.#kinds.get(kind)
    if (gathered === undefined) {
      const begun = { jobs: [] as Job[], isOver: false, timer: undefined as NodeJS.Timeout | undefined }
      if (waitMs > 0) {
        begun.timer = setTimeout(() => {
          begun.isOver = true
          this.#onReady()
        }, waitMs)
      }
      gathered = begun
      this.#kinds.set(kind, gathered)
    }
    gathered.jobs.push(job)
    this.#size++
  }

  /** Returns a batch that must start now, if there is one. `isAll` means that no other job is queued. */
  nextBatch(isAll: boolean): Job[] | undefined {
    for (const [kind, { jobs, isOver, timer }] of this.#kinds) {
      const isFull = jobs.length >= jobs[0]!.definition.batch!.size
      const isPatient = timer !== undefined
      if (!isFull && !isOver && (isPatient || !isAll)) continue
      clearTimeout(timer)
      this.#kinds.delete(kind)
      this.#size -= jobs.length
      return jobs
    }
    return undefined
  }

  clear(): Job[] {
    const all = [...this.#kinds.values()]
    for (const { timer } of all) clearTimeout(timer)
    this.#kinds.clear()
    this.#size = 0
    return all.flatMap(({ jobs }) => jobs)
  }
}
