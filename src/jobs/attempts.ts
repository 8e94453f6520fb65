import { backoffMs, type Events, Gather, type Spans, type Tracing } from '../base/index.js'
import type { RunTransaction } from '../once/index.js'
import type { Executor } from '../postgres/index.js'
import { answersOf, type Batch, type BatchJob, Gathering, seenBy } from './batches.js'
import { type Claims, placesOf } from './claims.js'
import { Outcome, validated } from './define.js'
import { type Ending, type Endings, endingFor, type Recorded, unstamped } from './endings.js'
import {
  DrainingError,
  InvalidInputError,
  JobCancelledError,
  JobLostError,
  JobTimeoutError,
  NonRetryableError,
  recordOf,
} from './errors.js'
import { arrayOf, type Ledger } from './ledger.js'
import type { LooseEnds } from './loose-ends.js'
import { writePayload } from './payload.js'
import type { Rounds } from './rounds.js'
import { type Claimed, Run, type RunGround } from './run.js'

export interface AttemptsOptions {
  readonly ledger: Ledger
  readonly rounds: Rounds
  readonly endings: Endings
  readonly claims: Claims
  readonly looseEnds: LooseEnds
  readonly concurrency: number
  readonly events: Events
  readonly tracing: Tracing
  readonly parents: RunGround['parents']
  readonly enqueueChild: RunGround['enqueueChild']
  /** Whether the life under which jobs were claimed still vouches for them. */
  readonly isTrusted: () => boolean
  /** Aborts when nothing more is to begin. */
  readonly draining: AbortSignal
  /** There is room for another job. */
  readonly onRoom: () => void
}

const notesAfterMs = 250
/** How long a handler that was told to stop may take for it. */
const stopMs = 5_000
const mostPassed = 4_000

/** The jobs that a worker has claimed: those that have not begun, and the attempts that run, each to its recorded end. */
export class Attempts {
  /** How many have come to an end. */
  finished = 0
  readonly #options: AttemptsOptions
  readonly #ledger: Ledger
  readonly #endings: Endings
  readonly #ground: RunGround
  readonly #claims: Claims
  readonly #queue: Claimed[] = []
  #queueHead = 0
  #isStarting = false
  readonly #gathering = new Gathering<Claimed>(() => this.#startMore())
  readonly #running = new Map<number, Run>()
  /** How many places are taken. A batch takes one. */
  #taken = 0
  readonly #starts
  readonly #noted = new Set<Run>()
  #notesTimer: NodeJS.Timeout | undefined
  #lastChance: Promise<unknown> = Promise.resolve()

  constructor(options: AttemptsOptions) {
    this.#options = options
    this.#ledger = options.ledger
    this.#endings = options.endings
    this.#claims = options.claims
    this.#ground = {
      database: this.#ledger.database,
      statements: this.#ledger.transactionStatements,
      expiryMs: this.#ledger.expiryMs,
      noted: (noted) => this.#noteSoon(noted),
      parents: options.parents,
      enqueueChild: options.enqueueChild,
    }
    this.#starts = new Gather<Run, boolean>((runs) => this.#markStarted(runs))
  }

  /** How many run. */
  get running(): number {
    return this.#running.size
  }

  /** How many have not begun. */
  get queued(): number {
    return this.#inQueue + this.#gathering.size
  }

  get #inQueue(): number {
    return this.#queue.length - this.#queueHead
  }

  take(jobs: readonly Claimed[]): void {
    for (const job of jobs) this.#queue.push(job)
    this.#startMore()
  }

  /** Those that have run for so long. */
  olderThan(ms: number): Run[] {
    const before = performance.now() - ms
    const older: Run[] = []
    for (const run of this.#running.values()) if (run.startedAt <= before) older.push(run)
    return older
  }

  /** Nothing of it is ours for certain any more. */
  loseAll(reason: Error | undefined): void {
    this.#takeQueue()
    this.#gathering.takeAll()
    for (const run of this.#running.values()) run.lose(reason)
  }

  /** What has not begun may run elsewhere. */
  giveBackQueued(): void {
    for (const job of [...this.#takeQueue(), ...this.#gathering.takeAll()]) this.#giveBack(job)
  }

  stopAll(reason: DrainingError): void {
    for (const run of this.#running.values()) run.stop(reason)
  }

  /** Handlers that do not stop, while the worker closes. */
  abandonAll(): void {
    for (const run of [...this.#running.values()]) this.#abandon(run)
  }

  close(): void {
    clearTimeout(this.#notesTimer)
    this.#gathering.takeAll()
  }

  #takeQueue(): Claimed[] {
    const taken = this.#queue.slice(this.#queueHead)
    this.#queue.length = 0
    this.#queueHead = 0
    return taken
  }

  #startMore(): void {
    // A handler that is not asynchronous ends while it is started, and asks for the next.
    if (this.#isStarting) return
    this.#isStarting = true
    while (this.#taken < this.#options.concurrency) {
      const batch = this.#gathering.take(this.#inQueue === 0)
      if (batch) {
        if (this.#options.draining.aborted) for (const one of batch) this.#giveBack(one)
        else if (this.#options.isTrusted()) void this.#startBatch(batch)
        continue
      }
      if (this.#inQueue === 0) break
      const job = this.#queue[this.#queueHead]!
      this.#queue[this.#queueHead++] = undefined as never
      if (this.#queueHead === this.#queue.length) this.#takeQueue()
      if (this.#options.draining.aborted) this.#giveBack(job)
      // A process that was frozen must not begin what may be somebody else's.
      else if (!this.#options.isTrusted()) continue
      else if (job.cancelled !== null) this.#cancelled(job, job.cancelled)
      // One that has its last chance does not share it.
      else if (job.definition.batch && !hasLastChance(job)) this.#gathering.add(job)
      else this.#start(job)
    }
    this.#isStarting = false
    if (this.#queueHead > mostPassed) {
      this.#queue.splice(0, this.#queueHead)
      this.#queueHead = 0
    }
  }

  #start(job: Claimed): void {
    const run = new Run(job, this.#ground)
    this.#running.set(job.id, run)
    this.#taken++
    if (isSuspect(job)) void this.#runCautiously(run)
    else this.#run(run)
  }

  async #startBatch(jobs: readonly Claimed[]): Promise<void> {
    const batch = { left: jobs.length }
    const runs = jobs.map((job) => new Run(job, this.#ground, batch))
    for (const run of runs) this.#running.set(run.id, run)
    this.#taken++
    await Promise.all(runs.filter(({ job }) => isSuspect(job)).map((run) => this.#isMarked(run)))
    await this.#runBatch(runs.filter(({ isOver }) => !isOver))
  }

  /**
   * A job that was with a worker when it died is marked before it runs, so that those which were only claimed are not
   * charged; and one that has its last chance runs alone among such, until its end is recorded: if the next one kills this
   * process, it is not charged.
   */
  async #runCautiously(run: Run): Promise<void> {
    const begin = async () => {
      if (await this.#isMarked(run)) await this.#run(run)
    }
    if (!hasLastChance(run.job)) return begin()
    const turn = this.#lastChance
    this.#lastChance = turn.then(() => this.#endings.whenRecorded(run.id))
    await turn
    await begin()
  }

  /** Marks that it is run; false when it is over instead. */
  async #isMarked(run: Run): Promise<boolean> {
    const isOurs = await this.#starts.ask(run).catch(() => undefined)
    if (isOurs && !run.isLost) return true
    this.#over(run, isOurs === undefined ? () => this.#giveBack(run.job) : () => this.#endings.drop(run.job))
    return false
  }

  async #markStarted(runs: readonly Run[]): Promise<boolean[]> {
    const sorted = [...runs].sort((a, b) => a.id - b.id)
    const rows = await this.#ledger.run<{ id: string }>('start', [
      arrayOf(sorted.map(({ id }) => id)),
      arrayOf(sorted.map(({ fence }) => fence)),
      placesOf(
        this.#claims,
        sorted.map(({ job }) => job),
      ),
    ])
    const started = new Set(rows.map(({ id }) => Number(id)))
    return runs.map(({ id }) => started.has(id))
  }

  /** Runs the handler. What is not asynchronous is not made so: most of the cost of a small job would be that. */
  #run(run: Run): Promise<void> | undefined {
    const { definition } = run.job
    const inTime = this.#limitTime([run], definition.timeoutMs)
    const succeed = (value: unknown) => {
      inTime?.()
      return this.#succeeded(run, value)
    }
    const fail = (error: unknown) => {
      inTime?.()
      this.#failed(run, error)
    }
    try {
      const input = validated(definition, run.job.input)
      const answer = input instanceof Promise ? input.then((one) => this.#handle(run, one)) : this.#handle(run, input)
      if (answer instanceof Promise) return answer.then(succeed, fail).catch(fail)
      return succeed(answer)?.catch(fail)
    } catch (error) {
      fail(error)
      return undefined
    }
  }

  /** What stands around a handler. */
  #handle(run: Run, input: unknown): unknown {
    const { definition } = run.job
    this.#options.events.to('job.began')?.(run.facts)
    const { tracer } = this.#options.tracing
    if (!tracer) return definition.run(input, run)
    return tracer.around('job process', this.#spanOf([run]), () => definition.run(input, run))
  }

  #handleBatch(batch: Batch, runs: readonly Run[], seen: readonly BatchJob[]): Promise<readonly unknown[]> {
    const { events, tracing } = this.#options
    const tell = events.to('job.began')
    if (tell) for (const run of runs) tell(run.facts)
    const { tracer } = tracing
    return tracer
      ? tracer.around('job process', this.#spanOf(runs), () => answersOf(batch, seen))
      : answersOf(batch, seen)
  }

  #spanOf(runs: readonly Run[]): Spans['job process'] {
    const { queue, kind, attempt } = runs[0]!.facts
    const traces = runs.flatMap(({ job }) => job.ties?.trace ?? [])
    return { queue, kind, attempt, ids: runs.map(({ id }) => id), traces }
  }

  /** Runs the handler for many jobs, each of which ends by itself. */
  async #runBatch(runs: readonly Run[]): Promise<void> {
    if (runs.length === 0) return
    const { definition } = runs[0]!.job
    const inTime = this.#limitTime(runs, definition.timeoutMs)
    const taken: Run[] = []
    const seen: BatchJob[] = []
    for (const run of runs) {
      try {
        seen.push(seenBy(run, await validated(definition, run.job.input)))
        taken.push(run)
      } catch (error) {
        this.#failed(run, error)
      }
    }
    try {
      const answers = seen.length > 0 ? await this.#handleBatch(definition.batch!, taken, seen) : []
      for (const [at, run] of taken.entries()) this.#answered(run, answers[at])
    } catch (error) {
      for (const run of taken) this.#failed(run, error)
    } finally {
      inTime?.()
    }
  }

  #answered(run: Run, answer: unknown): void {
    try {
      if (answer instanceof Error) throw answer
      void this.#succeeded(run, answer)
    } catch (error) {
      this.#failed(run, error)
    }
  }

  /** Tells handlers when their time is over, until what this answers is called. */
  #limitTime(runs: readonly Run[], timeoutMs: number | undefined): (() => void) | undefined {
    if (timeoutMs === undefined) return undefined
    let timer = setTimeout(() => {
      for (const run of runs) run.timeOut()
      // A handler that does not stop keeps neither its place nor its job.
      timer = setTimeout(() => {
        for (const run of runs) this.#failed(run, run.stopReason)
      }, stopMs)
    }, timeoutMs)
    return () => clearTimeout(timer)
  }

  #succeeded(run: Run, value: unknown): Promise<void> | undefined {
    if (run.isOver) return undefined
    const { job, stopReason } = run
    if (stopReason instanceof JobTimeoutError) throw stopReason
    if (value instanceof Outcome) {
      const error = value.reason ? { name: 'Outcome', message: value.reason } : undefined
      const { id, seq, claim } = job
      const ending = { id, seq, claim, state: value.state, error, delayMs: value.delayMs, failed: false }
      const transaction = run.sealed()
      if (transaction) return this.#commit(run, transaction, ending)
      if (value.state === 'retried') this.#options.rounds.soon(value.delayMs)
      this.#tellStopped(run, value.state)
      this.#over(run, () => this.#endings.end(ending))
      return undefined
    }
    let result: string | undefined
    try {
      result = writePayload(value, 'a result')
    } catch (error) {
      // Another attempt would do its work again, for the same answer.
      throw new NonRetryableError((error as Error).message, { cause: error })
    }
    const transaction = run.sealed()
    if (transaction) return this.#commit(run, transaction, result)
    this.#tellDone(run)
    this.#over(run, () => this.#endings.done(job, result))
    return undefined
  }

  /** Records the end in the transaction of the handler, and commits both. */
  async #commit(run: Run, transaction: RunTransaction, end: Ending | string | undefined): Promise<void> {
    const { id, claim } = run.job
    const { looseEnds } = this.#options
    let loose: string | null = null
    const record = async (tx: Executor) => {
      const rows =
        typeof end === 'object'
          ? await this.#ledger.runIn<Recorded>(tx, 'end', [
              JSON.stringify([endingFor(this.#claims, end)]),
              unstamped(this.#claims, [end]),
              '{}',
            ])
          : await this.#ledger.runIn<Recorded>(tx, 'done', [
              arrayOf([id]),
              arrayOf([claim.fence]),
              placesOf(this.#claims, [run.job]),
              end === undefined ? null : `[[${end}]]`,
              '{}',
            ])
      const { recorded } = rows[0]!
      loose = rows[0]!.loose
      if (recorded !== null && recorded.length === 0) throw new JobLostError(id, claim.fence)
    }
    await this.#flushNotes()
    try {
      await transaction.commit(record)
      looseEnds.found(loose)
    } catch (error) {
      looseEnds.unsure()
      // When it was the answer to the commit that is missing, the record of the failure is refused: the job has ended.
      if (error instanceof JobLostError) this.#endings.refused++
      if (error instanceof JobLostError) run.lose()
      throw error
    }
    if (typeof end === 'object' && end.state === 'retried') this.#options.rounds.soon(end.delayMs)
    if (typeof end === 'object') this.#tellStopped(run, end.state as 'retried' | 'cancelled' | 'discarded')
    else this.#tellDone(run)
    this.#over(run, () => this.#endings.recorded([run.job], []))
  }

  #failed(run: Run, error: unknown): void {
    if (run.isOver) return
    const { job, stopReason } = run
    const { definition, id, seq, claim } = job
    const transaction = run.sealed()
    if (transaction) void transaction.rollback()
    const base = { id, seq, claim, error: recordOf(error), delayMs: 0, failed: false }
    if (run.isLost) {
      this.#tellStopped(run, 'lost')
      this.#over(run, () => this.#endings.drop(job))
      return
    }
    if (stopReason instanceof JobCancelledError) {
      const cancelled = { ...base, state: 'cancelled', error: recordOf(stopReason) } as const
      this.#tellStopped(run, 'cancelled')
      this.#over(run, () => this.#endings.end(cancelled))
      return
    }
    if (stopReason instanceof DrainingError) {
      this.#tellStopped(run, 'returned')
      this.#over(run, () => this.#giveBack(job))
      return
    }
    const isFinal =
      error instanceof NonRetryableError || error instanceof InvalidInputError || job.failed + 1 >= definition.attempts
    const state = isFinal ? 'buried' : 'retried'
    const delayMs = isFinal ? 0 : backoffMs(job.failed, definition.backoffMs, definition.longestMs)
    this.#over(run, () => this.#endings.end({ ...base, state, delayMs, failed: true }))
    if (!isFinal) this.#options.rounds.soon(delayMs)
    const durationMs = performance.now() - run.startedAt
    this.#options.events.to('job.failed')?.({ ...run.facts, durationMs, state, error })
  }

  #tellDone(run: Run): void {
    this.#options.events.to('job.done')?.({ ...run.facts, durationMs: performance.now() - run.startedAt })
  }

  #tellStopped(run: Run, state: 'retried' | 'cancelled' | 'discarded' | 'returned' | 'lost'): void {
    this.#options.events.to('job.stopped')?.({ ...run.facts, durationMs: performance.now() - run.startedAt, state })
  }

  /** A handler that does not stop, while the worker closes. */
  #abandon(run: Run): void {
    if (run.isOver) return
    const transaction = run.sealed()
    if (transaction) void transaction.rollback()
    run.lose()
    this.#tellStopped(run, 'returned')
    this.#over(run, () => this.#giveBack(run.job))
  }

  #cancelled({ id, seq, claim }: Claimed, reason: string): void {
    const error = recordOf(new JobCancelledError(id, reason))
    this.#endings.end({ id, seq, claim, state: 'cancelled', error, delayMs: 0, failed: false })
  }

  #giveBack({ id, seq, claim }: Claimed): void {
    this.#endings.end({ id, seq, claim, state: 'returned', error: undefined, delayMs: 0, failed: false })
  }

  /** The attempt is over: records it, after what it noted, and makes room for the next. */
  #over(run: Run, record: () => void): void {
    if (run.isOver) return
    run.isOver = true
    if (this.#running.get(run.id) === run) this.#running.delete(run.id)
    if (run.batch === undefined || --run.batch.left === 0) this.#taken--
    this.finished++
    if (run.notes) void this.#flushNotes().then(record)
    else record()
    if (this.queued > 0) this.#startMore()
    this.#options.onRoom()
  }

  #noteSoon(run: Run): void {
    this.#noted.add(run)
    this.#notesTimer ??= setTimeout(() => void this.#flushNotes(), notesAfterMs)
  }

  async #flushNotes(): Promise<void> {
    clearTimeout(this.#notesTimer)
    this.#notesTimer = undefined
    const noted = [...this.#noted].sort((a, b) => a.id - b.id)
    this.#noted.clear()
    if (noted.length === 0) return
    const asked = noted.map((run) => {
      const { progress, lines } = run.notes!
      run.notes = undefined
      return {
        id: run.id,
        fence: run.fence,
        seq: this.#claims.placeOf(run.job),
        progress,
        ...(lines.length > 0 ? { lines: lines.slice(-100) } : {}),
      }
    })
    // What people read only: nothing waits for it to succeed.
    await this.#ledger.run('note', [JSON.stringify(asked)]).catch(() => {})
  }
}

/** Its worker has died once, or may not die at all: it is marked before it runs. */
function isSuspect({ crashes, maxCrashes }: Claimed): boolean {
  return crashes > 0 || maxCrashes === 1
}

function hasLastChance({ crashes, maxCrashes }: Claimed): boolean {
  return crashes >= maxCrashes - 1
}
