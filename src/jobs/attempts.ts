import type { Events, Tracing } from '../base/index.js'
import { Gathering } from './batches.js'
import type { Claimed, Claims } from './claims.js'
import type { Endings } from './endings.js'
import { type DrainingError, JobCancelledError, recordOf } from './errors.js'
import { Handlers } from './handlers.js'
import type { Ledger } from './ledger.js'
import type { LooseEnds } from './loose-ends.js'
import { NoteTaker } from './notes.js'
import { Outcomes } from './outcomes.js'
import type { Rounds } from './rounds.js'
import { Run, type RunGround } from './run.js'
import { hasLastChance, isSuspect, Suspects } from './suspects.js'

interface AttemptsOptions {
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
  /** Called when code around a handler fails. The jobs in question were given back. */
  readonly onBroken: (error: unknown) => void
}

/** When so many at its beginning are done with, the queue is moved up. */
const mostPassed = 4_000

/** The jobs that a worker has claimed: those that have not begun, and the attempts that run, each in its place until it is over. */
export class Attempts {
  /** How many have come to an end. */
  finished = 0
  readonly #options: AttemptsOptions
  readonly #endings: Endings
  readonly #ground: RunGround
  readonly #notes: NoteTaker
  readonly #outcomes: Outcomes
  readonly #handlers: Handlers
  readonly #suspects: Suspects
  readonly #queue: Claimed[] = []
  #queueHead = 0
  #isStarting = false
  readonly #gathering = new Gathering<Claimed>(() => this.#startMore())
  readonly #running = new Map<number, Run>()
  /** How many places are taken. A batch takes one. */
  #taken = 0

  constructor(options: AttemptsOptions) {
    const { ledger, claims, endings, events, tracing, parents, enqueueChild } = options
    this.#options = options
    this.#endings = endings
    this.#notes = new NoteTaker(ledger, claims)
    this.#suspects = new Suspects(ledger, claims, endings)
    this.#outcomes = new Outcomes({ ...options, notes: this.#notes, over: (run, record) => this.#over(run, record) })
    this.#handlers = new Handlers(this.#outcomes, events, tracing)
    this.#ground = {
      database: ledger.database,
      statements: ledger.transactionStatements,
      expiryMs: ledger.expiryMs,
      noted: (run) => this.#notes.soon(run),
      parents,
      enqueueChild,
    }
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

  /** Number of claimed jobs that have not begun although there is room for them. More than 0 only if this code is broken. */
  get stuck(): number {
    return this.#taken < this.#options.concurrency ? this.#inQueue : 0
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
    for (const job of [...this.#takeQueue(), ...this.#gathering.takeAll()]) this.#endings.giveBack(job)
  }

  stopAll(reason: DrainingError): void {
    for (const run of this.#running.values()) run.stop(reason)
  }

  /** Handlers that do not stop, while the worker closes. */
  abandonAll(): void {
    for (const run of [...this.#running.values()]) this.#outcomes.abandoned(run)
  }

  /** Resolves when all that are over have handed in their ends: some do when what they noted is written down. */
  handedIn(): Promise<void> {
    return this.#notes.settled()
  }

  close(): void {
    this.#notes.close()
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
    let inHand: readonly Claimed[] = []
    try {
      while (this.#taken < this.#options.concurrency) {
        const batch = this.#gathering.take(this.#inQueue === 0)
        if (!batch && this.#inQueue === 0) break
        inHand = batch ?? [this.#takeFirst()]
        if (this.#options.draining.aborted) for (const job of inHand) this.#endings.giveBack(job)
        // A process that was frozen must not begin what may be somebody else's.
        else if (this.#options.isTrusted()) {
          if (batch) this.#start(batch, { left: batch.length })
          else this.#startOne(inHand[0]!)
        }
        inHand = []
      }
    } catch (error) {
      // No job may stay claimed by a worker that does not begin it: neither those in hand nor those behind them.
      for (const job of inHand) this.#endings.giveBack(job)
      this.giveBackQueued()
      this.#options.onBroken(error)
    } finally {
      this.#isStarting = false
    }
    if (this.#queueHead > mostPassed) {
      this.#queue.splice(0, this.#queueHead)
      this.#queueHead = 0
    }
  }

  #takeFirst(): Claimed {
    const job = this.#queue[this.#queueHead]!
    this.#queue[this.#queueHead++] = undefined as never
    if (this.#queueHead === this.#queue.length) this.#takeQueue()
    return job
  }

  #startOne(job: Claimed): void {
    if (job.cancelled !== null) this.#cancelled(job, job.cancelled)
    // One that has its last chance does not share it.
    else if (job.definition.batch && !hasLastChance(job)) this.#gathering.add(job)
    else this.#start([job])
  }

  /** Begins the attempts. From here on each attempt comes to an end, even if the code that runs it fails. Never throws. */
  #start(jobs: readonly Claimed[], batch?: { left: number }): void {
    const runs = jobs.map((job) => new Run(job, this.#ground, batch))
    for (const run of runs) this.#running.set(run.id, run)
    this.#taken++
    try {
      const working = batch ? this.#runBatch(runs) : this.#runOne(runs[0]!)
      void working?.catch((error) => this.#broken(runs, error))
    } catch (error) {
      this.#broken(runs, error)
    }
  }

  #runOne(run: Run): Promise<void> | undefined {
    return isSuspect(run.job) ? this.#runCautiously(run) : this.#handlers.run(run)
  }

  async #runBatch(runs: readonly Run[]): Promise<void> {
    await Promise.all(runs.filter(({ job }) => isSuspect(job)).map((run) => this.#isMarked(run)))
    await this.#handlers.runBatch(runs.filter(({ isOver }) => !isOver))
  }

  /** The code around a handler has failed. The attempts fail with that error. If recording it fails as well, the jobs are given back. */
  #broken(runs: readonly Run[], error: unknown): void {
    for (const run of runs) {
      try {
        this.#outcomes.failed(run, error)
      } catch {
        this.#outcomes.abandoned(run)
      }
    }
    this.#options.onBroken(error)
  }

  async #runCautiously(run: Run): Promise<void> {
    await this.#suspects.turnOf(run)
    if (await this.#isMarked(run)) await this.#handlers.run(run)
  }

  /** Marks that it is run; false when it is over instead. */
  async #isMarked(run: Run): Promise<boolean> {
    const isOurs = await this.#suspects.mark(run)
    if (isOurs && !run.isLost) return true
    this.#over(run, () => (isOurs === undefined ? this.#endings.giveBack(run.job) : this.#endings.drop(run.job)))
    return false
  }

  #cancelled({ id, seq, claim }: Claimed, reason: string): void {
    const error = recordOf(new JobCancelledError(id, reason))
    this.#endings.end({ id, seq, claim, state: 'cancelled', error, delayMs: 0, failed: false })
  }

  /** The attempt is over: records it, after what it noted, and makes room for the next. */
  #over(run: Run, record: () => void): void {
    if (run.isOver) return
    run.isOver = true
    if (this.#running.get(run.id) === run) this.#running.delete(run.id)
    if (run.batch === undefined || --run.batch.left === 0) this.#taken--
    this.finished++
    const written = this.#notes.whenWritten(run)
    if (written) void written.then(record)
    else record()
    if (this.queued > 0) this.#startMore()
    this.#options.onRoom()
  }
}
