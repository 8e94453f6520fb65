import { backoffMs, Gather, pause, writeJson } from '../base/index.js'
import type { RunTransaction } from '../once/index.js'
import type { Executor, Life, Presence } from '../postgres/index.js'
import { Cursors, type Reach } from './cursors.js'
import { type AnyDefinition, Outcome, validated } from './define.js'
import { type Ending, Endings, emptiedBy } from './endings.js'
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
import type { Rounds } from './rounds.js'
import { type Claim, type Claimed, Run } from './run.js'

/** What a worker tells of an attempt that failed. */
export interface FailedAttempt {
  readonly id: number
  readonly kind: string
  readonly attempt: number
  /** What becomes of the job: tried again after a pause, or buried. */
  readonly state: 'retried' | 'buried'
}

export interface WorkerOptions {
  readonly ledger: Ledger
  readonly presence: Presence
  readonly rounds: Rounds
  readonly number: number
  readonly hasListener: boolean
  readonly definitions: ReadonlyMap<string, AnyDefinition>
  /** The keys of the queues that it serves. */
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly onFailure: ((error: unknown, job: FailedAttempt) => void) | undefined
}

/** As job_claim writes it; what is left out is the usual. */
type Row = [
  id: number,
  /** Which of the kinds, counted from 1. */
  kind: number,
  input: unknown,
  seq?: number,
  priority?: number,
  failed?: number,
  crashes?: number,
  maxCrashes?: number,
]

interface ClaimRow {
  readonly state: 'claimed' | 'gone' | 'unsettled'
  readonly fence: string | null
  readonly jobs: string | null
  /** How far each level was read. */
  readonly passed: string | null
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: string | null
}

const mostAClaim = 1_000
/** Jobs that a worker has claimed ahead are at most what it does in this time. */
const aheadMs = 40
const mostAhead = 4_000
/** While so many ends are not recorded yet, nothing more is claimed. */
const mostUnrecorded = 10_000
const rateEveryMs = 20
const nearEveryMs = 50
const farEveryMs = 1_000
const headEveryMs = 30_000
/** A look back may take this part of the time. */
const lookShare = 20
const watchEveryMs = 1_000
const announceEveryMs = 2_000
const notesAfterMs = 250
/** How long a handler that was told to stop may take for it. */
const stopMs = 5_000
const busyBeforeAwakeMs = 200

/**
 * One `jobs.work()`: claims, runs, and records.
 *
 *     awake ──(nothing left)──► asleep ──(told, or a look finds something)──► awake
 *       └─────────────────────────┴──► draining ──► closed
 */
export class Worker {
  readonly #options: WorkerOptions
  readonly #ledger: Ledger
  readonly #cursors: Cursors
  readonly #endings: Endings
  readonly #kinds: readonly string[]
  readonly #definitions: readonly AnyDefinition[]
  readonly #queue: Claimed[] = []
  #queueHead = 0
  #isStarting = false
  readonly #running = new Map<number, Run>()
  readonly #draining = new AbortController()
  readonly #givingUp = new AbortController()
  readonly #starts
  readonly #noted = new Set<Run>()
  #notesTimer: NodeJS.Timeout | undefined
  readonly #unanswered = new Map<string, number>()
  #token = Math.floor(Math.random() * 2 ** 40)
  #life: Life | undefined
  #forgetLife = () => {}
  #wake: (() => void) | undefined
  #wasWoken = false
  #ramp = 1
  #isFlagged = false
  #busySince = 0
  #rate = 0
  #finished = 0
  #rateFrom = performance.now()
  #lookedAt = { near: 0, far: 0, head: 0 }
  #lookCost = { near: 0, far: 0, head: 0 }
  #isLooking = false
  #lastChance: Promise<unknown> = Promise.resolve()
  #watchTimer: NodeJS.Timeout | undefined
  #lookTimer: NodeJS.Timeout | undefined
  #announcedAt = Number.NEGATIVE_INFINITY
  #working: Promise<void>
  #closing: Promise<void> | undefined

  /** @internal */
  constructor(options: WorkerOptions) {
    this.#options = options
    this.#ledger = options.ledger
    this.#cursors = new Cursors(options.queues)
    this.#endings = new Endings(options.ledger, this.#givingUp.signal, () => this.#nudge())
    this.#kinds = [...options.definitions.keys()]
    this.#definitions = [...options.definitions.values()]
    this.#starts = new Gather<Run, boolean>((runs) => this.#markStarted(runs))
    this.#working = this.#work()
  }

  /** How many jobs it runs at this moment. */
  get running(): number {
    return this.#running.size
  }

  /** How many ends of attempts were refused because their job had been taken over. */
  get refused(): number {
    return this.#endings.refused
  }

  /**
   * Takes no more jobs, gives back those it has not begun, and resolves when those that run have come to their end. Those
   * that take longer than `within` are told to stop (`DrainingError`) and given back.
   *
   * @example
   * process.once('SIGTERM', () => worker.close('20s'))
   */
  close(withinMs = 30_000): Promise<void> {
    this.#closing ??= this.#close(withinMs)
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal There may be something to do. */
  wake(): void {
    this.#wasWoken = true
    this.#wake?.()
  }

  /** @internal */
  get number(): number {
    return this.#options.number
  }

  /** @internal Somebody has cancelled a job of this instance. */
  cancelled(): void {
    void this.#watch(0)
  }

  /** @internal A queue goes on: what was passed over while it was paused must be looked at. */
  resumed(): void {
    this.#cursors.reset()
    this.wake()
  }

  async #close(withinMs: number): Promise<void> {
    this.#draining.abort(new DrainingError())
    this.wake()
    await this.#working
    for (const job of this.#takeQueue()) this.#giveBack(job)
    const deadline = performance.now() + withinMs
    await this.#untilIdle(deadline)
    if (this.#running.size > 0) {
      for (const run of this.#running.values()) run.stop(this.#draining.signal.reason)
      await this.#untilIdle(performance.now() + stopMs)
      for (const run of [...this.#running.values()]) this.#abandon(run)
    }
    await Promise.race([this.#endings.settled(), pause(this.#ledger.expiryMs)])
    this.#givingUp.abort()
    clearInterval(this.#watchTimer)
    clearTimeout(this.#lookTimer)
    clearTimeout(this.#notesTimer)
    this.#forgetLife()
    if (this.#life?.trusted) {
      await this.#giveBackUnknown(this.#life).catch(() => {})
      await this.#ledger.run('leave', [this.#life.number, this.#options.number]).catch(() => {})
    }
  }

  async #untilIdle(deadline: number): Promise<void> {
    while (this.#running.size > 0) {
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) return
      const nudged = new AbortController()
      this.#wake = () => nudged.abort()
      await pause(leftMs, nudged.signal)
    }
  }

  /** The main loop: one life after the other, one claim after the other. */
  async #work(): Promise<void> {
    for (let failures = 0; !this.#draining.signal.aborted; ) {
      try {
        const life = await this.#options.presence.whenLiving(this.#draining.signal)
        if (life !== this.#life) await this.#begin(life)
        const want = this.#wanted()
        if (want === 0) {
          await this.#nudged(1_000)
          continue
        }
        const found = await this.#claim('onward', Math.min(want, this.#ramp))
        failures = 0
        if (found > 0) this.#stayAwake(found)
        else await this.#sleep()
      } catch {
        if (this.#draining.signal.aborted) return
        // Whatever it is, it may pass; doctor and the observer tell about rights and schemas.
        await pause(backoffMs(failures++, 50, 5_000), this.#draining.signal)
      }
    }
  }

  async #begin(life: Life): Promise<void> {
    const { number, presence, queues } = this.#options
    this.#forgetLife()
    this.#dropAll(this.#life?.loss)
    this.#cursors.reset()
    this.#isFlagged = false
    await this.#ledger.run('enlist', [life.number, number, presence.instanceId, arrayOf(queues)])
    this.#life = life
    this.#forgetLife = life.onLoss((reason) => this.#dropAll(reason))
    clearInterval(this.#watchTimer)
    this.#watchTimer = setInterval(() => void this.#watch(watchEveryMs * 0.9), watchEveryMs)
    this.#lookTimer ??= setTimeout(() => this.#lookBack(), nearEveryMs)
    if (!life.trusted) throw life.loss
  }

  /** Nothing that was claimed under the last life is ours for certain. */
  #dropAll(reason: Error | undefined): void {
    this.#takeQueue()
    for (const run of this.#running.values()) run.lose(reason)
  }

  #takeQueue(): Claimed[] {
    const taken = this.#queue.slice(this.#queueHead)
    this.#queue.length = 0
    this.#queueHead = 0
    return taken
  }

  get #queued(): number {
    return this.#queue.length - this.#queueHead
  }

  /** How many jobs to claim now; none while a later claim would be a larger one. */
  #wanted(): number {
    const now = performance.now()
    if (now - this.#rateFrom >= rateEveryMs) {
      const current = this.#finished / (now - this.#rateFrom)
      this.#rate = current > this.#rate ? current : this.#rate * 0.7 + current * 0.3
      this.#finished = 0
      this.#rateFrom = now
    }
    if (this.#endings.unrecorded > mostUnrecorded) return 0
    const ahead = Math.min(mostAhead, Math.floor(this.#rate * aheadMs))
    const want = this.#options.concurrency + ahead - this.#running.size - this.#queued
    const few = Math.min(mostAClaim, Math.max(1, Math.floor(ahead / 2)))
    return want >= few ? Math.min(want, mostAClaim) : 0
  }

  /** One claim; answers how many jobs it found. */
  async #claim(reach: Reach, most: number): Promise<number> {
    const life = this.#life!
    const { levels } = this.#cursors
    const starts = this.#cursors.starts(reach)
    const looksBack = reach !== 'onward'
    const token = String(this.#token++)
    // Whoever has nothing to do must know that somebody may die with work; from time to time is enough.
    const announces = performance.now() - this.#announcedAt >= announceEveryMs
    this.#unanswered.set(token, Number.POSITIVE_INFINITY)
    let row: ClaimRow | undefined
    try {
      ;[row] = await this.#ledger.run<ClaimRow>('claim', [
        life.number,
        token,
        arrayOf(levels.map(({ queue }) => queue)),
        arrayOf(levels.map(({ priority }) => priority)),
        arrayOf(starts),
        this.#kinds,
        most,
        announces,
        looksBack,
      ])
      this.#unanswered.delete(token)
    } catch (error) {
      // It may have been granted, or yet be, without our having heard of it.
      this.#unanswered.set(token, performance.now())
      throw error
    }
    if (row!.state === 'gone') {
      // Somebody has taken over from this life, so it is not ours any more, whatever it believes.
      if (this.#life === life) this.#life = undefined
      this.#dropAll(undefined)
      throw new Error('gone')
    }
    if (row!.state === 'unsettled') throw new Error('unsettled')
    const jobs: Row[] = row!.jobs === null ? [] : JSON.parse(row!.jobs)
    if (looksBack && jobs.length < most) {
      if (row!.oldest !== null) this.#cursors.sawAll(starts, BigInt(row!.oldest))
      this.#cursors.mark(Number(row!.last), BigInt(row!.newest!))
    }
    if (jobs.length === 0) return 0
    if (announces) this.#announcedAt = performance.now()
    if (!looksBack) this.#cursors.passed(JSON.parse(row!.passed!))
    this.#take(life, Number(row!.fence), jobs)
    return jobs.length
  }

  #take(life: Life, fence: number, jobs: Row[]): void {
    jobs.sort((a, b) => (b[4] ?? 0) - (a[4] ?? 0) || (a[3] ?? a[0]) - (b[3] ?? b[0]))
    const claim: Claim = { fence, left: jobs.length }
    this.#options.rounds.busy()
    for (const [id, kind, input, , , failed = 0, crashes = 0, maxCrashes = 3] of jobs) {
      const definition = this.#definitions[kind - 1]!
      this.#queue.push({ claim, definition, id, input, failed, crashes, maxCrashes })
    }
    if (life !== this.#life || !life.trusted) this.#takeQueue()
    else this.#startMore()
  }

  #startMore(): void {
    // A handler that is not asynchronous ends while it is started, and asks for the next.
    if (this.#isStarting) return
    this.#isStarting = true
    while (this.#running.size < this.#options.concurrency && this.#queueHead < this.#queue.length) {
      const job = this.#queue[this.#queueHead]!
      this.#queue[this.#queueHead++] = undefined as never
      if (this.#queueHead === this.#queue.length) this.#takeQueue()
      if (this.#draining.signal.aborted) this.#giveBack(job)
      // A process that was frozen must not begin what may be somebody else's.
      else if (this.#life?.trusted) this.#start(job)
    }
    this.#isStarting = false
    if (this.#queueHead > mostAhead) {
      this.#queue.splice(0, this.#queueHead)
      this.#queueHead = 0
    }
  }

  #start(job: Claimed): void {
    const run = new Run(job, {
      database: this.#ledger.database,
      statements: this.#ledger.transactionStatements,
      expiryMs: this.#ledger.expiryMs,
      noted: (noted) => this.#noteSoon(noted),
    })
    this.#running.set(job.id, run)
    if (job.crashes > 0 || job.maxCrashes === 1) void this.#runCautiously(run)
    else this.#run(run)
  }

  /**
   * A job that was with a worker when it died is marked before it runs, so that those which were only claimed are not
   * charged; and one that has its last chance runs alone among such.
   */
  async #runCautiously(run: Run): Promise<void> {
    const begin = async () => {
      const isOurs = await this.#starts.ask(run).catch(() => undefined)
      if (isOurs === undefined) return this.#over(run, () => this.#giveBack(run.job))
      if (!isOurs || run.isLost) return this.#over(run, () => {})
      await this.#run(run)
    }
    if (run.job.crashes < run.job.maxCrashes - 1) return begin()
    const turn = this.#lastChance.then(begin)
    this.#lastChance = turn
    await turn
  }

  async #markStarted(runs: readonly Run[]): Promise<boolean[]> {
    const sorted = [...runs].sort((a, b) => a.id - b.id)
    const rows = await this.#ledger.run<{ id: string }>('start', [
      arrayOf(sorted.map(({ id }) => id)),
      arrayOf(sorted.map(({ fence }) => fence)),
    ])
    const started = new Set(rows.map(({ id }) => Number(id)))
    return runs.map(({ id }) => started.has(id))
  }

  /** Runs the handler. What is not asynchronous is not made so: most of the cost of a small job would be that. */
  #run(run: Run): Promise<void> | undefined {
    const { definition } = run.job
    let timer: NodeJS.Timeout | undefined
    if (definition.timeoutMs !== undefined) {
      timer = setTimeout(() => {
        run.timeOut()
        // A handler that does not stop keeps neither its place nor its job.
        timer = setTimeout(() => this.#failed(run, run.stopReason), stopMs)
      }, definition.timeoutMs)
    }
    const succeed = (value: unknown) => {
      clearTimeout(timer)
      return this.#succeeded(run, value)
    }
    const fail = (error: unknown) => {
      clearTimeout(timer)
      this.#failed(run, error)
    }
    try {
      const input = validated(definition, run.job.input)
      const answer =
        input instanceof Promise ? input.then((one) => definition.run(one, run)) : definition.run(input, run)
      if (answer instanceof Promise) return answer.then(succeed, fail).catch(fail)
      return succeed(answer)?.catch(fail)
    } catch (error) {
      fail(error)
      return undefined
    }
  }

  #succeeded(run: Run, value: unknown): Promise<void> | undefined {
    if (run.isOver) return undefined
    const { job, stopReason } = run
    if (stopReason instanceof JobTimeoutError) throw stopReason
    if (value instanceof Outcome) {
      const error = value.reason ? { name: 'Outcome', message: value.reason } : undefined
      const ending = { id: job.id, claim: job.claim, state: value.state, error, delayMs: value.delayMs, failed: false }
      const transaction = run.sealed()
      if (transaction) return this.#commit(run, transaction, ending)
      if (value.state === 'retried') this.#options.rounds.soon(value.delayMs)
      this.#over(run, () => this.#endings.end(ending))
      return undefined
    }
    let result: string | undefined
    try {
      result = writeJson(value, 'a result')
    } catch (error) {
      // Another attempt would do its work again, for the same answer.
      throw new NonRetryableError((error as Error).message, { cause: error })
    }
    const transaction = run.sealed()
    if (transaction) return this.#commit(run, transaction, result)
    this.#over(run, () => this.#endings.done(job.id, job.claim, result))
    return undefined
  }

  /** Records the end in the transaction of the handler, and commits both. */
  async #commit(run: Run, transaction: RunTransaction, end: Ending | string | undefined): Promise<void> {
    const { id, claim } = run.job
    const record = async (tx: Executor) => {
      const rows =
        typeof end === 'object'
          ? await this.#ledger.runIn<{ recorded: unknown[] | null }>(tx, 'end', [
              JSON.stringify([
                { id, fence: claim.fence, state: end.state, error: end.error, delay_ms: end.delayMs, failed: 0 },
              ]),
              '{}',
            ])
          : await this.#ledger.runIn<{ recorded: unknown[] | null }>(tx, 'done', [
              arrayOf([id]),
              arrayOf([claim.fence]),
              end === undefined ? null : `[[${end}]]`,
              '{}',
            ])
      const { recorded } = rows[0]!
      if (recorded !== null && recorded.length === 0) throw new JobLostError(id, claim.fence)
    }
    await this.#flushNotes()
    try {
      await transaction.commit(record)
    } catch (error) {
      // When it was the answer to the commit that is missing, the record of the failure is refused: the job has ended.
      if (error instanceof JobLostError) this.#endings.refused++
      if (error instanceof JobLostError) run.lose()
      throw error
    }
    if (typeof end === 'object' && end.state === 'retried') this.#options.rounds.soon(end.delayMs)
    this.#over(run, () => this.#forgetClaim(claim))
  }

  /** Its last job has ended in another statement. */
  #forgetClaim(claim: Claim): void {
    const emptied = emptiedBy([{ claim }])
    if (emptied.length > 0) void this.#ledger.run('end', ['[]', arrayOf(emptied)]).catch(() => {})
  }

  #failed(run: Run, error: unknown): void {
    if (run.isOver) return
    const { job, stopReason } = run
    const { definition, id, claim } = job
    const transaction = run.sealed()
    if (transaction) void transaction.rollback()
    const base = { id, claim, error: recordOf(error), delayMs: 0, failed: false }
    if (run.isLost) {
      this.#over(run, () => {})
      return
    }
    if (stopReason instanceof JobCancelledError) {
      const cancelled = { ...base, state: 'cancelled', error: recordOf(stopReason) } as const
      this.#over(run, () => this.#endings.end(cancelled))
      return
    }
    if (stopReason instanceof DrainingError) {
      this.#over(run, () => this.#giveBack(job))
      return
    }
    const isFinal =
      error instanceof NonRetryableError || error instanceof InvalidInputError || job.failed + 1 >= definition.attempts
    const state = isFinal ? 'buried' : 'retried'
    const delayMs = isFinal ? 0 : backoffMs(job.failed, definition.backoffMs, definition.longestMs)
    this.#over(run, () => this.#endings.end({ ...base, state, delayMs, failed: true }))
    if (!isFinal) this.#options.rounds.soon(delayMs)
    try {
      this.#options.onFailure?.(error, { id, kind: definition.kind, attempt: run.attempt, state })
    } catch {
      // What only listens must not harm the work.
    }
  }

  /** A handler that does not stop, while the worker closes. */
  #abandon(run: Run): void {
    if (run.isOver) return
    const transaction = run.sealed()
    if (transaction) void transaction.rollback()
    run.lose()
    this.#over(run, () => this.#giveBack(run.job))
  }

  #giveBack({ id, claim }: Claimed): void {
    this.#endings.end({ id, claim, state: 'returned', error: undefined, delayMs: 0, failed: false })
  }

  /** The attempt is over: records it, after what it noted, and makes room for the next. */
  #over(run: Run, record: () => void): void {
    if (run.isOver) return
    run.isOver = true
    if (this.#running.get(run.id) === run) this.#running.delete(run.id)
    this.#finished++
    if (run.notes) void this.#flushNotes().then(record)
    else record()
    if (this.#queued > 0) this.#startMore()
    this.#nudge()
  }

  #nudge(): void {
    if (this.#wake && (this.#draining.signal.aborted || this.#wanted() > 0)) this.#wake()
  }

  async #nudged(withinMs: number): Promise<void> {
    if (this.#draining.signal.aborted) return
    const nudged = new AbortController()
    this.#wake = () => nudged.abort()
    await pause(withinMs, nudged.signal)
    this.#wake = undefined
  }

  #stayAwake(found: number): void {
    const now = performance.now()
    if (found >= this.#ramp) this.#ramp = Math.min(mostAClaim, this.#ramp * 4)
    if (this.#busySince === 0) this.#busySince = now
    if (this.#isFlagged && now - this.#busySince > busyBeforeAwakeMs) {
      this.#isFlagged = false
      void this.#flag(false)
    }
  }

  /** Nothing was found: asks to be told, looks again, and rests. */
  async #sleep(): Promise<void> {
    this.#busySince = 0
    this.#ramp = 1
    if (!this.#isFlagged) {
      await this.#flag(true)
      this.#isFlagged = true
    }
    const longestMs = this.#options.hasListener ? 5_000 : 1_000
    for (let restMs = 20; ; restMs = Math.min(longestMs, restMs * 2)) {
      const want = this.#wanted()
      this.#wasWoken = false
      if (want > 0 && (await this.#claim('far', Math.min(want, this.#ramp))) > 0) return
      if (this.#draining.signal.aborted) return
      if (!this.#wasWoken) await this.#rest(restMs * (0.75 + Math.random() / 2))
      if (this.#wasWoken || !this.#life?.trusted || this.#draining.signal.aborted) return
    }
  }

  /** Until told, or so long. */
  async #rest(ms: number): Promise<void> {
    const woken = new AbortController()
    this.#wake = () => {
      if (this.#wasWoken || this.#draining.signal.aborted) woken.abort()
    }
    await pause(ms, woken.signal)
    this.#wake = undefined
  }

  async #flag(sleeping: boolean): Promise<void> {
    await this.#ledger.run('sleep', [this.#life!.number, this.#options.number, sleeping])
  }

  /** Looks back while it is awake; asleep, each look is one anyway. */
  #lookBack(): void {
    if (this.#draining.signal.aborted) return
    this.#lookTimer = setTimeout(() => this.#lookBack(), nearEveryMs)
    if (this.#isLooking || this.#busySince === 0 || !this.#life?.trusted) return
    const now = performance.now()
    const every = { near: nearEveryMs * 0.9, far: farEveryMs, head: headEveryMs }
    const isDue = (reach: 'near' | 'far' | 'head') =>
      now - this.#lookedAt[reach] >= Math.max(every[reach], this.#lookCost[reach] * lookShare)
    const reach = (['head', 'far', 'near'] as const).find(isDue)
    // At the cost of a few more than it has room for: a job that came late must not wait for a queue that never ends.
    if (!reach || this.#queued > mostAhead) return
    this.#isLooking = true
    this.#claim(reach, 100)
      .catch(() => {})
      .finally(() => {
        this.#isLooking = false
        this.#lookedAt[reach] = performance.now()
        this.#lookCost[reach] = performance.now() - now
      })
  }

  /** Asks about the jobs that have run for a while: whether they are still ours, and not cancelled. */
  async #watch(olderMs: number): Promise<void> {
    const life = this.#life
    if (!life) return
    if (this.#unanswered.size > 0) await this.#giveBackUnknown(life).catch(() => {})
    const before = performance.now() - olderMs
    const runs: Run[] = []
    for (const run of this.#running.values()) if (run.startedAt <= before) runs.push(run)
    if (runs.length === 0) return
    this.#options.rounds.busy()
    const rows = await this.#ledger
      .run<{ id: string; cancelled: string | null }>('watch', [
        arrayOf(runs.map(({ id }) => id)),
        arrayOf(runs.map(({ fence }) => fence)),
        life.number,
      ])
      .catch(() => undefined)
    if (rows === undefined) return
    const ours = new Map(rows.map(({ id, cancelled }) => [Number(id), cancelled]))
    for (const run of runs) {
      if (run.isOver || this.#running.get(run.id) !== run) continue
      const cancelled = ours.get(run.id)
      if (cancelled === undefined) run.lose()
      else if (cancelled !== null) run.stop(new JobCancelledError(run.id, cancelled))
    }
  }

  /** Gives back what was claimed by statements whose answers never arrived. */
  async #giveBackUnknown(life: Life): Promise<void> {
    const forgetBefore = performance.now() - 60_000
    const failed = [...this.#unanswered].filter(([, at]) => at !== Number.POSITIVE_INFINITY)
    if (failed.length === 0) return
    await this.#ledger.run('give_back', [life.number, arrayOf(failed.map(([token]) => token))])
    for (const [token, at] of failed) if (at < forgetBefore) this.#unanswered.delete(token)
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
      return { id: run.id, fence: run.fence, progress, ...(lines.length > 0 ? { lines: lines.slice(-100) } : {}) }
    })
    // What people read only: nothing waits for it to succeed.
    await this.#ledger.run('note', [JSON.stringify(asked)]).catch(() => {})
  }
}
