import { type DrainingError, isInstance } from '../base/index.js'
import type { RunTransaction } from '../once/index.js'
import { BatchBuffer } from './batches.js'
import type { ClaimedJob } from './claims.js'
import { commitOutcome } from './commit.js'
import type { JobsContext } from './context.js'
import type { Endings } from './endings.js'
import { JobLostError } from './errors.js'
import { Fifo } from './fifo.js'
import { runBatch, runJob } from './handlers.js'
import { NoteTaker } from './notes.js'
import {
  type DoneOutcome,
  type EndedOutcome,
  failureOf,
  lost,
  type Outcome,
  returnOf,
  type SuspendedOutcome,
} from './outcomes.js'
import { maxAttemptsOf } from './policy.js'
import { Run, type RunContext } from './run.js'
import { hasLastChance, isSuspect, Suspects } from './suspects.js'
import { ThreadPools } from './thread-pool.js'
import type { WorkerWakeup } from './worker-wakeup.js'

/** Jobs that a worker has claimed, which are either queued or running in a slot. */
export class Attempts {
  /** Number of attempts that have ended since `Pace` last reset this number. */
  finished = 0
  /** Internal failure in the code that runs handlers. The worker reports and resets this failure. */
  failure: { readonly error: unknown } | undefined
  readonly #context: JobsContext
  readonly #endings: Endings
  readonly #wakeup: WorkerWakeup
  readonly #concurrency: number
  readonly #runContext: RunContext
  readonly #notes: NoteTaker
  readonly #suspects: Suspects
  readonly #threads = new ThreadPools()
  readonly #queue = new Fifo<ClaimedJob>()
  readonly #batchBuffer = new BatchBuffer<ClaimedJob>(() => this.#startMore())
  readonly #running = new Map<number, Run>()
  /** Number of slots in use. A batch uses one slot. */
  #usedSlots = 0
  #isStarting = false
  #isDraining = false

  constructor(context: JobsContext, endings: Endings, wakeup: WorkerWakeup, concurrency: number) {
    const { store, intake, events, tracing } = context
    this.#context = context
    this.#endings = endings
    this.#wakeup = wakeup
    this.#concurrency = concurrency
    this.#notes = new NoteTaker(store)
    this.#suspects = new Suspects(store, endings)
    this.#runContext = {
      ...context.attempts,
      store,
      intake,
      notes: this.#notes,
      events,
      tracing,
    }
  }

  get running(): number {
    return this.#running.size
  }

  get queued(): number {
    return this.#queue.length + this.#batchBuffer.size
  }

  /** Number of jobs that fit into the free slots, at `perSlot` jobs per slot. Negative if jobs are waiting for a slot. */
  room(perSlot: number): number {
    return (this.#concurrency - this.#usedSlots) * perSlot - this.#batchBuffer.countBy(perSlot) - this.#queue.length
  }

  /** Number of jobs that are queued although a slot is free. A value above 0 indicates a bug in this code. */
  get stuck(): number {
    return this.#usedSlots < this.#concurrency ? this.#queue.length : 0
  }

  add(jobs: readonly ClaimedJob[]): void {
    for (const job of jobs) this.#queue.push(job)
    if (this.#isDraining) this.#giveBackQueued()
    else this.#startMore()
  }

  /** Returns the attempts that have been running for at least `ms` milliseconds. */
  olderThan(ms: number): Run[] {
    const before = performance.now() - ms
    const older: Run[] = []
    for (const run of this.#running.values()) if (run.startedAt <= before) older.push(run)
    return older
  }

  /** Abandons all jobs, because their epoch has ended and other workers may own the jobs. */
  loseAll(reason: Error | undefined): void {
    this.#queue.clear()
    this.#batchBuffer.clear()
    for (const run of this.#running.values()) run.lose(reason)
  }

  /** Starts no more attempts. Returns jobs that have not been started to their queue. */
  drain(): void {
    this.#isDraining = true
    this.#giveBackQueued()
    this.#threads.giveUpWaiting()
  }

  stopAll(reason: DrainingError): void {
    for (const run of this.#running.values()) run.stop(reason)
  }

  /** Returns all running jobs to their queue, because their handlers did not stop before the worker closed. */
  abandonAll(): void {
    for (const run of [...this.#running.values()]) this.#abandon(run)
  }

  /**
   * Resolves when all finished attempts' outcomes have been passed on for recording. Before an outcome is passed
   * on, the attempt's notes must be written.
   */
  settled(): Promise<void> {
    return this.#notes.settled()
  }

  close(): void {
    this.#notes.close()
    this.#batchBuffer.clear()
    this.#threads.close()
  }

  #giveBackQueued(): void {
    for (const job of [...this.#queue.clear(), ...this.#batchBuffer.clear()]) this.#endings.giveBack(job)
  }

  #startMore(): void {
    // Prevents recursion: a synchronous handler ends inside `#start`, and its end calls this function again.
    if (this.#isStarting) return
    this.#isStarting = true
    let inHand: readonly ClaimedJob[] = []
    try {
      while (this.#usedSlots < this.#concurrency) {
        const batch = this.#batchBuffer.nextBatch(this.#queue.length === 0)
        const job = batch?.[0] ?? this.#queue.shift()
        if (!job) break
        inHand = batch ?? [job]
        // If this process was frozen for a while, another worker may own the job now.
        if (job.claim.epoch.trusted) {
          if (batch) this.#startBatch(batch)
          // A job runs outside of batches if its next crash would bury the job.
          else if (job.definition.batch && !hasLastChance(job)) this.#batchBuffer.add(job)
          else this.#start(job)
        }
        inHand = []
      }
    } catch (error) {
      // A worker that cannot start jobs must return the current jobs and the queued jobs to their queues.
      for (const job of inHand) this.#endings.giveBack(job)
      this.#giveBackQueued()
      this.#reportFailure(error)
    } finally {
      this.#isStarting = false
    }
  }

  #newRun(job: ClaimedJob, batch?: { left: number }): Run {
    const run = new Run(job, this.#runContext, batch)
    this.#running.set(run.id, run)
    return run
  }

  /** Starts an attempt and never throws. The attempt ends even if the code that runs the handler fails. */
  #start(job: ClaimedJob): void {
    const run = this.#newRun(job)
    this.#usedSlots++
    try {
      const outcome = job.definition.threads ? this.#runInThread(run) : this.#run(run)
      if (outcome instanceof Promise) void this.#endLater(run, outcome)
      else this.#end(run, outcome)
    } catch (error) {
      this.#broken([run], error)
    }
  }

  async #endLater(run: Run, outcome: Promise<Outcome>): Promise<void> {
    try {
      this.#end(run, await outcome)
    } catch (error) {
      this.#broken([run], error)
    }
  }

  #run(run: Run): Outcome | Promise<Outcome> {
    return isSuspect(run.job) ? this.#runSuspect(run) : runJob(run, this.#context)
  }

  /** Runs the attempt when a thread is free. The attempt's time limit does not include the wait. */
  async #runInThread(run: Run): Promise<Outcome> {
    if (!(await this.#threads.acquire(run, run.job.definition))) {
      return run.stopReason ? failureOf(run, run.stopReason) : returnOf(run.job)
    }
    try {
      return await this.#run(run)
    } finally {
      this.#threads.release(run.thread!)
    }
  }

  async #runSuspect(run: Run): Promise<Outcome> {
    await this.#suspects.waitForLastChance(run)
    return (await this.#suspects.mark(run)) ?? runJob(run, this.#context)
  }

  #startBatch(jobs: readonly ClaimedJob[]): void {
    const batch = { left: jobs.length }
    const runs = jobs.map((job) => this.#newRun(job, batch))
    this.#usedSlots++
    void this.#runBatch(runs).catch((error) => this.#broken(runs, error))
  }

  async #runBatch(runs: readonly Run[]): Promise<void> {
    const marking = runs.map(async (run) => {
      const outcome = isSuspect(run.job) ? await this.#suspects.mark(run) : undefined
      if (outcome) this.#end(run, outcome)
    })
    await Promise.all(marking)
    const left = runs.filter(({ isOver }) => !isOver)
    const outcomes = await runBatch(left, this.#context)
    for (const [at, run] of left.entries()) this.#end(run, outcomes[at]!)
  }

  /**
   * Fails the attempts with an error from the code that runs handlers. If this also fails, returns the jobs to their
   * queue.
   */
  #broken(runs: readonly Run[], error: unknown): void {
    for (const run of runs) {
      try {
        this.#end(run, failureOf(run, error))
      } catch {
        this.#abandon(run)
      }
    }
    this.#reportFailure(error)
  }

  #reportFailure(error: unknown): void {
    this.failure ??= { error }
    this.#wakeup.signal()
  }

  #abandon(run: Run): void {
    run.lose()
    this.#end(run, returnOf(run.job))
  }

  /** Ends an attempt with its outcome. Only the first outcome of an attempt counts. */
  #end(run: Run, outcome: Outcome): void {
    if (run.isOver) return
    const transaction = run.sealed()
    const stepsOver = run.rollBackSteps()
    if (transaction && outcome.commits) {
      void this.#commit(run, transaction, outcome).catch((error) => this.#broken([run], error))
      return
    }
    const rolledBack = transaction?.rollback()
    if (outcome.event === 'job.ended' && outcome.state === 'suspended') {
      void this.#suspend(run, outcome, [rolledBack, stepsOver]).catch((error) => this.#broken([run], error))
    } else this.#finish(run, outcome)
  }

  /** Ends the attempt of a job that sleeps or waits for an event. */
  async #suspend(
    run: Run,
    outcome: SuspendedOutcome,
    rolledBack: readonly (Promise<void> | undefined)[],
  ): Promise<void> {
    // The job may be resumed immediately. Its next attempt must not wait for this attempt's row locks.
    await Promise.all(rolledBack)
    await this.#notes.whenWritten(run)
    const isSuspended = await this.#endings.suspend(run.job, outcome.step)
    if (run.isOver) return
    if (isSuspended) {
      this.#context.maintenance.runWithin(outcome.leftMs)
      this.#finish(run, outcome, true)
      return
    }
    run.lose()
    this.#finish(run, lost)
  }

  /** Commits the handler's transaction with the outcome. */
  async #commit(run: Run, transaction: RunTransaction, outcome: DoneOutcome | EndedOutcome): Promise<void> {
    // Notes must be written before the outcome, because recording the outcome deletes them.
    await this.#notes.whenWritten(run)
    try {
      await commitOutcome(this.#context, run.job, transaction, outcome)
    } catch (error) {
      if (isInstance(error, JobLostError)) {
        this.#endings.refusedEnds++
        run.lose()
      }
      // If the commit succeeded and only its response was lost, the database rejects the failure, because the job has
      // already ended.
      this.#end(run, failureOf(run, error))
      return
    }
    this.#finish(run, outcome, true)
  }

  /** Frees the attempt's slot, and records the outcome after the attempt's notes have been written. */
  #finish(run: Run, outcome: Outcome, isRecorded = false): void {
    if (run.isOver) return
    run.isOver = true
    if (this.#running.get(run.id) === run) this.#running.delete(run.id)
    if (run.batch === undefined || --run.batch.left === 0) this.#usedSlots--
    this.finished++
    this.#emit(run, outcome)
    if (outcome.ending?.state === 'retried') this.#context.maintenance.runWithin(outcome.ending.delayMs)
    const written = this.#notes.whenWritten(run)
    if (isRecorded) this.#endings.recorded([run.job], [])
    else if (written) void written.then(() => this.#record(run.job, outcome))
    else this.#record(run.job, outcome)
    if (this.queued > 0) this.#startMore()
    this.#wakeup.signalRoom()
  }

  #record(job: ClaimedJob, outcome: Outcome): void {
    if (outcome.event === 'job.done') this.#endings.done(job, outcome.result)
    else if (outcome.ending) this.#endings.end(outcome.ending)
    else this.#endings.drop(job)
  }

  #emit(run: Run, outcome: Outcome): void {
    const emit = this.#context.events.emitter(outcome.event)
    if (!emit) return
    const fields = { ...run.eventFields, durationMs: performance.now() - run.startedAt }
    if (outcome.event === 'job.done') emit(fields)
    else if (outcome.event === 'job.ended') emit({ ...fields, state: outcome.state })
    else {
      const { state, error, ending } = outcome
      const maxAttempts = maxAttemptsOf(run.job) + run.job.crashes
      const retryInMs = state === 'retried' ? ending.delayMs : undefined
      emit({ ...fields, maxAttempts, state, retryInMs, error })
    }
  }
}
