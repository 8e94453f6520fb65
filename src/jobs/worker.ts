import {
  backoffMs,
  closeOptionRules,
  DrainingError,
  type Duration,
  defaultTimes,
  isInstance,
  pause,
  Readiness,
  readOptions,
} from '../base/index.js'
import { arrayLiteral, type Epoch, type HealthReason, healthReasonOf, SchemaVersionError } from '../postgres/index.js'
import { Attempts } from './attempts.js'
import { type Claim, type ClaimedJob, type ClaimResult, type Claims, toClaimedJob } from './claims.js'
import type { JobsContext } from './context.js'
import type { ImplementedJob, JobDefinition } from './definition.js'
import { Endings } from './endings.js'
import { JobCancelledError } from './errors.js'
import { inputSchemaOf } from './input-schema.js'
import { Pace } from './pace.js'
import { stopMs } from './stop-time.js'
import type { JobStore } from './store.js'
import { WorkerWakeup } from './worker-wakeup.js'

interface WorkerOptions {
  readonly number: number
  readonly concurrency: number
  readonly definitions: ReadonlyMap<string, ImplementedJob>
  /** Names of the queues that the worker serves. */
  readonly queueNames: readonly string[]
}

/** Interval at which a busy worker looks for priorities that have not been used before. */
const thoroughEveryMs = 1_000
const watchEveryMs = 1_000
const announceEveryMs = 2_000
const busyBeforeAwakeMs = 200
/**
 * Shortest pause of a worker that has found no jobs. A worker that is woken up before this pause has passed counts as
 * busy.
 */
const minRestMs = 20
const maxPauseMs = 5_000
/**
 * Maximum pause of an idle worker between two checks for jobs. `polls` applies without notifications of new jobs, and
 * `listens` with notifications.
 */
const maxRestMs = { polls: 1_000, listens: 5_000 }
/** Time without an internal failure after which the count of internal failures starts again. */
const forgetBrokenMs = 60_000

/**
 * Worker that claims jobs, runs them and records their outcomes.
 *
 *     awake ──(no job found)──► asleep ──(woken, or a poll finds a job)──► awake
 *       └─────────────────────────┴──► draining ──► closed
 */
export class Worker {
  readonly #context: JobsContext
  readonly #options: WorkerOptions
  /** All of the instance's open workers, including this worker. */
  readonly #workers: Set<Worker>
  readonly #store: JobStore
  readonly #claims: Claims
  /** Keys of the queues that the worker serves. */
  readonly #queues: readonly string[]
  readonly #endings: Endings
  readonly #kinds: readonly string[]
  readonly #definitions: readonly ImplementedJob[]
  /** Kinds that this worker records in the table `job_kind`, as JSON. */
  readonly #registration: string
  readonly #attempts: Attempts
  readonly #pace: Pace
  readonly #wakeup = new WorkerWakeup()
  /** Resolves when the database knows whether this worker is sleeping. Never rejects. */
  #marking: Promise<unknown> = Promise.resolve()
  readonly #draining = new AbortController()
  readonly #givingUp = new AbortController()
  #epoch: Epoch | undefined
  #forgetEpoch = () => {}
  #isMarkedSleeping = false
  /** Number of jobs that have been claimed, but not accepted yet. */
  #arriving = 0
  #busySince = 0
  /** Time of the last claim that found jobs. */
  #foundAt = 0
  /** Time since which enqueueing wakes this worker up. */
  #markedAt = 0
  #checkTimer: NodeJS.Timeout | undefined
  /**
   * Time at which the resting worker claims again. Each look that finds no job postpones this time. Undefined while the
   * worker is not resting.
   */
  #restUntil: number | undefined
  #announcedAt = Number.NEGATIVE_INFINITY
  #thoroughAt = Number.NEGATIVE_INFINITY
  /** Whether the last claim also looked for priorities that have not been used before. */
  #wasThorough = true
  #working: Promise<void>
  #closing: Promise<void> | undefined
  /** Error that caused the main loop to pause. */
  #failure: { readonly error: unknown } | undefined
  /** Time when the current step of the main loop started. */
  #lastStepAt = performance.now()
  readonly #readiness = new Readiness('The worker')

  /** @internal */
  constructor(context: JobsContext, workers: Set<Worker>, options: WorkerOptions) {
    this.#context = context
    this.#options = options
    this.#workers = workers.add(this)
    this.#store = context.store
    this.#claims = context.claims
    this.#queues = options.queueNames.map((queue) => context.queues.keyOf(queue))
    this.#endings = new Endings(context, this.#givingUp.signal, this.#wakeup)
    this.#kinds = [...options.definitions.keys()]
    this.#definitions = [...options.definitions.values()]
    this.#registration = JSON.stringify(
      this.#definitions.map((definition) => ({
        queue: context.queues.keyOf(definition.queue),
        kind: definition.kind,
        schema: inputSchemaOf(definition),
        keep_days: definition.keepDays,
      })),
    )
    this.#attempts = new Attempts(context, this.#endings, this.#wakeup, options.concurrency)
    this.#pace = new Pace({
      attempts: this.#attempts,
      endings: this.#endings,
      // Uses the smallest batch size of all its definitions, so that the worker does not claim more jobs than fit into its slots.
      batchSize: Math.min(...this.#definitions.map(({ batch }) => batch?.size ?? 1)),
    })
    this.#working = this.#work()
  }

  /** Number of jobs that this worker is running. */
  get running(): number {
    return this.#attempts.running
  }

  /** Number of outcomes that the database rejected because another worker had taken over the job. */
  get refusedEnds(): number {
    return this.#endings.refusedEnds
  }

  /**
   * Resolves when the worker has started to claim jobs. Rejects if the next attempt to start fails. The worker keeps
   * trying, so you can call `ready` again.
   *
   * @example
   * const worker = holdfast.jobs.work([sendEmail])
   * await worker.ready()
   */
  ready(): Promise<void> {
    return this.#readiness.wait()
  }

  /**
   * Shuts the worker down gracefully. The worker stops claiming jobs, returns jobs that have not been started to their
   * queue, and waits for running jobs. After `within` (default `30s`), the signals of the remaining jobs abort with a
   * `DrainingError`, and these jobs are returned to their queue.
   *
   * @example
   * process.once('SIGTERM', () => worker.close({ within: '20s' }))
   */
  close(options?: { within?: Duration | undefined }): Promise<void> {
    const { within = defaultTimes.drainWithinMs } = readOptions('close', options, closeOptionRules)
    this.#closing ??= this.#close(within).finally(() => this.#workers.delete(this))
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal Wakes the main loop. If the worker has no room, it wakes another worker. */
  wake(): void {
    this.#wakeup.signal()
  }

  /** @internal Wakes the main loop if the worker has room. */
  wakeIfRoom(): void {
    if (this.#hasRoom()) this.wake()
  }

  /** @internal Wakes the main loop for a job that caused no notification. If the worker can no longer claim, wakes another worker. */
  async wakeFor(queue: string): Promise<void> {
    if (!this.#draining.signal.aborted && this.#epoch?.trusted) this.wake()
    // Ignores errors, because other workers also poll.
    else await this.#store.run('wake', [this.#context.queues.keyOf(queue)]).catch(() => {})
  }

  /**
   * @internal Returns the values that a look uses to check for this worker's jobs. Undefined unless the worker is
   * resting in this epoch.
   */
  lookFor(epoch: Epoch): { number: number; queues: readonly string[]; kinds: readonly string[] } | undefined {
    if (this.#restUntil === undefined || epoch !== this.#epoch) return undefined
    return { number: this.number, queues: this.#queues, kinds: this.#kinds }
  }

  /** @internal Returns whether this worker is resting, has no jobs, and runs jobs of this definition. */
  isIdleFor({ queue, kind }: Pick<JobDefinition, 'kind' | 'queue'>): boolean {
    const { queueNames, definitions } = this.#options
    const isResting = this.#restUntil !== undefined && this.#epoch?.trusted === true
    const jobs = this.#attempts.running + this.#attempts.queued + this.#arriving
    return isResting && jobs === 0 && queueNames.includes(queue) && definitions.has(kind)
  }

  /**
   * @internal Handles the result of a look. A look that finds no job has the same effect as a claim that finds no jobs.
   */
  onLook(isReady: boolean): void {
    if (isReady) this.wake()
    if (isReady || this.#restUntil === undefined) return
    this.#lastStepAt = performance.now()
    this.#restUntil = Math.max(this.#restUntil, performance.now() + this.#restMs())
  }

  /** @internal */
  get number(): number {
    return this.#options.number
  }

  /** @internal Checks the running jobs after a cancellation. */
  checkCancelled(): void {
    void this.#checkRunning(0)
  }

  /** @internal Reason why the worker currently cannot claim, start or end jobs. */
  get trouble(): HealthReason | undefined {
    if (this.#draining.signal.aborted) return undefined
    const name = `The worker of ${this.#options.queueNames.map((queue) => `"${queue}"`).join(', ')}`
    if (this.#failure) return healthReasonOf('WORKER_FAILED', `${name} cannot claim jobs`, this.#failure.error)
    const { failure } = this.#endings
    if (failure) return healthReasonOf('WORKER_FAILED', `${name} cannot record the outcomes of jobs`, failure.error)
    // A step of the main loop contains at most one statement and one pause, unless the step is waiting for presence.
    const stalledAfterMs = 2 * (this.#store.expiryMs + maxPauseMs)
    const isStalled =
      performance.now() - this.#lastStepAt > stalledAfterMs && this.#context.presence.epoch !== undefined
    if (isStalled || this.#attempts.stuck > 0)
      return { code: 'WORKER_STALLED', message: `${name} is not starting the jobs that it has claimed` }
    return undefined
  }

  async #close(withinMs: number): Promise<void> {
    this.#draining.abort(new DrainingError('worker'))
    this.#readiness.close()
    this.#attempts.drain()
    this.wake()
    // Waits for a claim that is still running, because its jobs must be returned.
    await this.#working
    // A notification may have chosen this worker after its last claim.
    if (this.#isMarkedSleeping) await this.#passOn()
    while (this.#arriving > 0) await new Promise((resolve) => setImmediate(resolve))
    const epoch = this.#epoch
    if (epoch?.trusted && this.#attempts.running > 0) {
      // Notifies the other instances that this worker no longer claims jobs. Ignores errors, because closing does not
      // depend on this statement.
      void this.#store.run('stop_claiming', [epoch.number, this.#options.number]).catch(() => {})
    }
    const deadline = performance.now() + withinMs
    await this.#untilIdle(deadline)
    if (this.#attempts.running > 0) {
      this.#attempts.stopAll(this.#draining.signal.reason)
      await this.#untilIdle(performance.now() + stopMs)
      this.#attempts.abandonAll()
    }
    await Promise.race([this.#settled(), pause(this.#store.expiryMs, this.#givingUp.signal)])
    this.#givingUp.abort()
    clearInterval(this.#checkTimer)
    this.#attempts.close()
    this.#forgetEpoch()
    if (this.#epoch?.trusted) {
      await this.#returnUnanswered(this.#epoch)
      await this.#store.run('unregister_worker', [this.#epoch.number, this.#options.number]).catch(() => {})
    }
  }

  /** Resolves when all outcomes have been recorded and their follow-ups have run. */
  async #settled(): Promise<void> {
    await this.#attempts.settled()
    await this.#endings.settled()
    await this.#context.followUps.settled()
  }

  async #untilIdle(deadline: number): Promise<void> {
    while (this.#attempts.running > 0) {
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) return
      await this.#wakeup.wait(leftMs, () => true)
    }
  }

  /** Runs the main loop: claims jobs until the worker closes, and registers again for each new epoch. */
  async #work(): Promise<void> {
    for (let failures = 0, breakdowns = 0, brokenAt = 0, wasDrained = true; !this.#draining.signal.aborted; ) {
      try {
        this.#lastStepAt = performance.now()
        if (this.#attempts.failure) throw this.#attempts.failure.error
        const epoch = await this.#context.presence.whenPresent(this.#draining.signal)
        if (epoch !== this.#epoch) await this.#begin(epoch)
        const want = this.#pace.claimCount(this.#arriving)
        if (want === 0) {
          // After the statement, the worker may have room or another wake-up.
          if (this.#wakeup.isSignaled || (this.#isMarkedSleeping && !wasDrained)) await this.#passOn()
          else await this.#waitForRoom(1_000)
          continue
        }
        this.#wakeup.isSignaled = false
        const { found, isDrained } = await this.#claim(this.#pace.atOnce(want))
        failures = 0
        wasDrained = isDrained
        this.#failure = undefined
        if (found > 0) this.#stayAwake(found)
        if (isDrained && (found === 0 || this.#isMarkedSleeping)) await this.#sleep()
        else if (found === 0) this.#thoroughAt = Number.NEGATIVE_INFINITY
      } catch (error) {
        this.#readiness.fail(error)
        // After a `SchemaVersionError`, the worker cannot continue until its process runs newer code.
        if (isInstance(error, SchemaVersionError)) this.#readiness.reset()
        if (this.#draining.signal.aborted) return
        if (this.#isMarkedSleeping) void this.#passOn()
        this.#failure = { error }
        this.#context.events.emitter('worker.failed')?.({ queues: this.#options.queueNames, error })
        this.#pace.reset()
        if (this.#attempts.failure) {
          this.#attempts.failure = undefined
          // Successful claims do not reset this count, because claims can succeed between two internal failures.
          if (performance.now() - brokenAt > forgetBrokenMs) breakdowns = 0
          brokenAt = performance.now()
          failures = Math.max(failures, breakdowns++)
        }
        // Retries after any error, because the error may be temporary. The doctor and the observer report missing
        // privileges and schema mismatches.
        await pause(backoffMs(failures++, 50, maxPauseMs), this.#draining.signal)
      }
    }
  }

  async #begin(epoch: Epoch): Promise<void> {
    const { presence, maintenance } = this.#context
    this.#forgetEpoch()
    this.#attempts.loseAll(this.#epoch?.loss)
    this.#isMarkedSleeping = false
    await maintenance.start()
    // Other workers may have announced their jobs while this instance was not listening. If one of these workers dies
    // now, only maintenance detects it.
    maintenance.noteActivity()
    await this.#store.run('register_worker', [
      epoch.number,
      this.#options.number,
      presence.instanceId,
      arrayLiteral(this.#queues),
      this.#kinds,
      this.#registration,
      this.#options.concurrency,
    ])
    this.#epoch = epoch
    this.#forgetEpoch = epoch.onLoss((reason) => this.#attempts.loseAll(reason))
    clearInterval(this.#checkTimer)
    this.#checkTimer = setInterval(() => void this.#checkRunning(watchEveryMs * 0.9), watchEveryMs)
    if (!epoch.trusted) throw epoch.loss
    this.#readiness.succeed()
  }

  /** Runs one claim statement. */
  async #claim(maxJobs: number): Promise<{ found: number; isDrained: boolean }> {
    this.#context.maintenance.checkVersion()
    const epoch = this.#epoch!
    // Notifies idle instances every two seconds that a worker has jobs, so that they can detect if this worker dies.
    const now = performance.now()
    const announces = now - this.#announcedAt >= announceEveryMs
    const isThorough = now - this.#thoroughAt >= thoroughEveryMs
    const [queues, kinds] = [this.#queues, this.#kinds]
    const found = await this.#claims.claim(epoch, { queues, kinds, maxJobs, announces, isThorough })
    if (isThorough) this.#thoroughAt = now
    this.#wasThorough = isThorough
    if (found.state === 'gone') {
      // Another instance has taken over this epoch's jobs. The epoch has ended, even if its session still looks alive.
      if (this.#epoch === epoch) this.#epoch = undefined
      this.#attempts.loseAll(undefined)
      throw new Error("This worker's epoch has ended, and another instance has taken over the jobs")
    }
    if (found.state === 'in-grace')
      throw new Error('The database server started recently. No jobs can be claimed until the grace period has ended')
    let count = 0
    // This step must come first, because a worker must start or return all jobs that it has claimed.
    if (found.isDrained && !found.isEmpty) count = this.#accept(epoch, found)
    else if (!found.isEmpty) {
      count = maxJobs
      this.#acceptSoon(epoch, found, maxJobs)
    }
    this.#readiness.succeed()
    if (count > 0 && announces) this.#announcedAt = performance.now()
    return { found: count, isDrained: found.isDrained }
  }

  /**
   * Accepts the jobs after the next claim has been sent. While this process reads the inputs and starts the jobs, the
   * server works on the next claim.
   */
  #acceptSoon(epoch: Epoch, found: ClaimResult, count: number): void {
    this.#arriving += count
    setImmediate(() => {
      this.#arriving -= count
      try {
        this.#accept(epoch, found)
      } catch (error) {
        this.#attempts.failure ??= { error }
        this.wake()
      }
    })
  }

  /** Passes a claim's jobs to the attempts. Returns the number of claimed jobs. */
  #accept(epoch: Epoch, { fence, parse }: ClaimResult): number {
    const rows = parse()
    const claim: Claim = { epoch, fence, unended: rows.length }
    this.#context.maintenance.noteActivity()
    if (epoch !== this.#epoch || !epoch.trusted) return rows.length
    let jobs: ClaimedJob[]
    try {
      jobs = rows.map((row) => toClaimedJob(row, claim, this.#definitions))
    } catch (error) {
      for (const [id] of rows) this.#endings.giveBack({ id, claim })
      throw error
    }
    this.#attempts.add(jobs)
    return rows.length
  }

  /** Waits until the worker may claim more jobs, for at most `ms` milliseconds. */
  async #waitForRoom(ms: number): Promise<void> {
    if (!this.#draining.signal.aborted) await this.#wakeup.wait(ms, () => this.#hasRoom())
  }

  #hasRoom(): boolean {
    return this.#pace.claimCount(this.#arriving) > 0
  }

  #stayAwake(found: number): void {
    const now = performance.now()
    this.#pace.onClaimed(found)
    this.#foundAt = now
    if (this.#busySince === 0) this.#busySince = now
    if (this.#isMarkedSleeping && now - this.#busySince > busyBeforeAwakeMs) {
      this.#isMarkedSleeping = false
      // Ignores errors, because an error only causes unnecessary wake-ups.
      void this.#markSleeping(false).catch(() => {})
    }
  }

  /**
   * Handles a claim that left no jobs in the queues. First requests wake-ups. The next claim then finds the jobs that
   * were enqueued before this request was visible. After that, the worker rests until it is woken up.
   */
  async #sleep(): Promise<void> {
    if (!this.#isMarkedSleeping) {
      await this.#markSleeping(true)
      this.#isMarkedSleeping = true
      this.#markedAt = performance.now()
      return
    }
    const from = performance.now()
    this.#restUntil = from + this.#restMs()
    // The wake-up for the last jobs may also have been for a job with a priority that has not been used before.
    if (!this.#wasThorough) this.#restUntil = Math.min(this.#restUntil, this.#thoroughAt + thoroughEveryMs)
    while (!this.#wakeup.isSignaled && !this.#draining.signal.aborted) {
      const leftMs = this.#restUntil - performance.now()
      if (leftMs <= 0) break
      await this.#wakeup.wait(leftMs)
    }
    this.#restUntil = undefined
    if (performance.now() - from < minRestMs) return
    this.#busySince = 0
    this.#pace.reset()
  }

  /**
   * Returns how long the worker rests. Transactions that began before the request for wake-ups was visible do not wake
   * this worker. The number of such transactions falls over time, so the worker checks less and less often. Without a
   * listener, the worker finds new jobs only by polling.
   */
  #restMs(): number {
    const { hasListener } = this.#context
    const idleSince = hasListener ? this.#markedAt : Math.max(this.#markedAt, this.#foundAt)
    const idleMs = Math.max(minRestMs, performance.now() - idleSince)
    return Math.min(idleMs, hasListener ? maxRestMs.listens : maxRestMs.polls) * (0.75 + Math.random() / 2)
  }

  /** Wakes another worker in place of this worker, which has no room, cannot claim or is closing. */
  async #passOn(): Promise<void> {
    this.#wakeup.isSignaled = false
    this.#isMarkedSleeping = false
    // Ignores errors, because other workers also poll.
    if (this.#epoch?.trusted) await this.#mark('pass_on', []).catch(() => {})
  }

  #markSleeping(sleeping: boolean): Promise<unknown> {
    return this.#mark('set_sleeping', [sleeping])
  }

  /**
   * Sends one statement after the other. On two connections, the later statement could take effect first, and then
   * nothing would wake the worker.
   */
  #mark(statement: 'set_sleeping' | 'pass_on', more: readonly unknown[]): Promise<unknown> {
    const values = [this.#epoch!.number, this.#options.number, ...more]
    const marking = this.#marking.then(() => this.#store.run(statement, values))
    this.#marking = marking.catch(() => {})
    return marking
  }

  async #returnUnanswered(epoch: Epoch): Promise<void> {
    const { followUps } = this.#context
    await this.#claims.returnUnanswered(epoch).then(
      (numbers) => followUps.add(numbers),
      () => followUps.recheck(),
    )
  }

  /** Checks whether this worker still owns its long-running jobs, and whether these jobs have been cancelled. */
  async #checkRunning(olderMs: number): Promise<void> {
    const epoch = this.#epoch
    if (!epoch) return
    await this.#returnUnanswered(epoch)
    const runs = this.#attempts.olderThan(olderMs)
    if (runs.length === 0) return
    this.#context.maintenance.noteActivity()
    const rows = await this.#store
      .run<{ id: string; cancelled: string | null }>('check_running', [
        arrayLiteral(runs.map(({ id }) => id)),
        arrayLiteral(runs.map(({ fence }) => fence)),
        epoch.number,
      ])
      .catch(() => undefined)
    if (rows === undefined) return
    const ours = new Map(rows.map(({ id, cancelled }) => [Number(id), cancelled]))
    for (const run of runs) {
      if (run.isOver) continue
      const cancelled = ours.get(run.id)
      if (cancelled === undefined) run.lose()
      else if (cancelled !== null) run.stop(new JobCancelledError(run.id, cancelled))
    }
  }
}
