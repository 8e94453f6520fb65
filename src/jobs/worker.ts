import {
  backoffMs,
  ClosedError,
  closeRules,
  type Duration,
  type Events,
  isInstance,
  pause,
  readOptions,
  type Tracing,
} from '../base/index.js'
import {
  arrayOf,
  type HealthReason,
  type Life,
  type Presence,
  SchemaVersionError,
  troubleOf,
} from '../postgres/index.js'
import { Attempts } from './attempts.js'
import type { Claim, Claimed } from './claims.js'
import { type Claims, placesOf, type Row } from './claims.js'
import { Cursors, type Reach } from './cursors.js'
import type { AnyDefinition } from './definition.js'
import { Endings } from './endings.js'
import { DrainingError, JobCancelledError, MixedClaimsError } from './errors.js'
import { stopMs } from './handlers.js'
import type { Ledger } from './ledger.js'
import { type Look, Looks, nearEveryMs } from './looks.js'
import type { LooseEnds } from './loose-ends.js'
import { mostAhead, Pace } from './pace.js'
import type { Rounds } from './rounds.js'
import type { RunGround } from './run.js'

interface WorkerOptions {
  readonly ledger: Ledger
  readonly presence: Presence
  readonly rounds: Rounds
  readonly claims: Claims
  readonly looseEnds: LooseEnds
  /** When the tables of the day are there, into which jobs end. */
  readonly begun: Promise<void>
  readonly number: number
  readonly hasListener: boolean
  readonly definitions: ReadonlyMap<string, AnyDefinition>
  /** The keys of the queues that it serves. */
  readonly queues: readonly string[]
  /** How they are called. */
  readonly queueNames: readonly string[]
  readonly concurrency: number
  readonly events: Events
  readonly tracing: Tracing
  readonly parents: RunGround['parents']
  readonly enqueueChild: RunGround['enqueueChild']
  readonly onClosed: () => void
}

/** A look beside the claims takes so many jobs at most. */
const mostALook = 100
const watchEveryMs = 1_000
const announceEveryMs = 2_000
const busyBeforeAwakeMs = 200
const closeWithinMs = 30_000
const longestPauseMs = 5_000
/** After so long without another one, a breakdown of the worker itself counts as the first. */
const forgetBrokenMs = 60_000

/**
 * One `jobs.work()`: claims, runs, and records.
 *
 *     awake ──(nothing left)──► asleep ──(told, or a look finds something)──► awake
 *       └─────────────────────────┴──► draining ──► closed
 */
export class Worker {
  readonly #options: WorkerOptions
  readonly #ledger: Ledger
  readonly #claims: Claims
  readonly #cursors: Cursors
  readonly #endings: Endings
  readonly #kinds: readonly string[]
  readonly #definitions: readonly AnyDefinition[]
  readonly #attempts: Attempts
  readonly #pace: Pace
  readonly #looks = new Looks()
  readonly #draining = new AbortController()
  readonly #givingUp = new AbortController()
  #life: Life | undefined
  #forgetLife = () => {}
  #wake: (() => void) | undefined
  #wasWoken = false
  #isFlagged = false
  #busySince = 0
  #watchTimer: NodeJS.Timeout | undefined
  #lookTimer: NodeJS.Timeout | undefined
  #announcedAt = Number.NEGATIVE_INFINITY
  #working: Promise<void>
  /** A look beside the claims. */
  #lookingBack: Promise<unknown> | undefined
  #closing: Promise<void> | undefined
  #hasBegun = false
  /** Something went wrong in this worker itself, since its last claim. */
  #broken: { readonly error: unknown } | undefined
  /** Why it pauses. */
  #failure: { readonly error: unknown } | undefined
  /** When the main loop began its latest step. */
  #cameByAt = performance.now()
  #waiting: { resolve(): void; reject(error: unknown): void }[] = []

  /** @internal */
  constructor(options: WorkerOptions) {
    this.#options = options
    this.#ledger = options.ledger
    this.#claims = options.claims
    this.#cursors = new Cursors(options.queues)
    this.#endings = new Endings(options.ledger, options.claims, options.looseEnds, this.#givingUp.signal, () =>
      this.#nudge(),
    )
    this.#kinds = [...options.definitions.keys()]
    this.#definitions = [...options.definitions.values()]
    this.#attempts = new Attempts({
      ledger: options.ledger,
      rounds: options.rounds,
      endings: this.#endings,
      claims: options.claims,
      looseEnds: options.looseEnds,
      concurrency: options.concurrency,
      events: options.events,
      tracing: options.tracing,
      parents: options.parents,
      enqueueChild: options.enqueueChild,
      isTrusted: () => this.#life?.trusted === true,
      draining: this.#draining.signal,
      onRoom: () => this.#nudge(),
      onBroken: (error) => {
        this.#broken ??= { error }
        this.wake()
      },
    })
    this.#pace = new Pace({
      attempts: this.#attempts,
      endings: this.#endings,
      claims: this.#claims,
      concurrency: options.concurrency,
      // Kinds without batches must not be claimed for places that they will not get.
      together: Math.min(...this.#definitions.map(({ batch }) => batch?.size ?? 1)),
    })
    this.#working = this.#work()
  }

  /** How many jobs it runs at this moment. */
  get running(): number {
    return this.#attempts.running
  }

  /** How many ends of attempts were refused because their job had been taken over. */
  get refused(): number {
    return this.#endings.refused
  }

  /**
   * Resolves when it works. Rejects with what keeps it from it, the next time that it has tried; it goes on trying, so ask
   * again.
   *
   * @example
   * const worker = holdfast.jobs.work([sendEmail])
   * await worker.ready()
   */
  ready(): Promise<void> {
    if (this.#draining.signal.aborted) return Promise.reject(new ClosedError('The worker'))
    if (this.#hasBegun) return Promise.resolve()
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  /**
   * Takes no more jobs, gives back those it has not begun, and resolves when those that run have come to their end. Those
   * that take longer than `within` (default `30s`) are told to stop (`DrainingError`) and given back.
   *
   * @example
   * process.once('SIGTERM', () => worker.close({ within: '20s' }))
   */
  close(options?: { within?: Duration | undefined }): Promise<void> {
    const { within = closeWithinMs } = readOptions('close', options, closeRules)
    this.#closing ??= this.#close(within).finally(this.#options.onClosed)
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

  /** @internal Why the worker cannot claim, begin or end jobs at present. */
  get trouble(): HealthReason | undefined {
    if (this.#draining.signal.aborted) return undefined
    const name = `The worker of ${this.#options.queueNames.map((queue) => `"${queue}"`).join(', ')}`
    if (this.#failure) return troubleOf('WORKER_FAILED', `${name} cannot claim jobs`, this.#failure.error)
    const { failure } = this.#endings
    if (failure) return troubleOf('WORKER_FAILED', `${name} cannot record the ends of jobs`, failure.error)
    // No step of the main loop takes longer than a statement and a pause, but for the wait for a presence.
    const stalledAfterMs = 2 * (this.#ledger.expiryMs + longestPauseMs)
    const isStalled = performance.now() - this.#cameByAt > stalledAfterMs && this.#options.presence.life !== undefined
    if (isStalled || this.#attempts.stuck > 0)
      return { code: 'WORKER_STALLED', message: `${name} does not begin the jobs that it has claimed` }
    return undefined
  }

  async #close(withinMs: number): Promise<void> {
    this.#draining.abort(new DrainingError())
    for (const { reject } of this.#waiting.splice(0)) reject(new ClosedError('The worker'))
    this.wake()
    // What they still find would be claimed for nobody.
    await Promise.all([this.#working, this.#lookingBack])
    this.#attempts.giveBackQueued()
    const life = this.#life
    if (life?.trusted && this.#attempts.running > 0) {
      // Other instances must not count this worker as one that claims. Closing does not depend on it.
      void this.#ledger.run('stop_claiming', [life.number, this.#options.number]).catch(() => {})
    }
    const deadline = performance.now() + withinMs
    await this.#untilIdle(deadline)
    if (this.#attempts.running > 0) {
      this.#attempts.stopAll(this.#draining.signal.reason)
      await this.#untilIdle(performance.now() + stopMs)
      this.#attempts.abandonAll()
    }
    await Promise.race([this.#settled(), pause(this.#ledger.expiryMs, this.#givingUp.signal)])
    this.#givingUp.abort()
    clearInterval(this.#watchTimer)
    clearTimeout(this.#lookTimer)
    this.#attempts.close()
    this.#forgetLife()
    if (this.#life?.trusted) {
      await this.#claims.giveBackUnknown(this.#life).catch(() => {})
      await this.#ledger.run('leave', [this.#life.number, this.#options.number]).catch(() => {})
    }
  }

  /** Resolves when all that has come to its end is recorded, and followed up. */
  async #settled(): Promise<void> {
    await this.#attempts.handedIn()
    await this.#endings.settled()
    await this.#options.looseEnds.settled()
  }

  async #untilIdle(deadline: number): Promise<void> {
    while (this.#attempts.running > 0) {
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) return
      const nudged = new AbortController()
      this.#wake = () => nudged.abort()
      await pause(leftMs, nudged.signal)
    }
  }

  /** The main loop: one life after the other, one claim after the other. */
  async #work(): Promise<void> {
    for (let failures = 0, breakdowns = 0, brokenAt = 0; !this.#draining.signal.aborted; ) {
      try {
        this.#cameByAt = performance.now()
        if (this.#broken) throw this.#broken.error
        const life = await this.#options.presence.whenLiving(this.#draining.signal)
        if (life !== this.#life) await this.#begin(life)
        const want = this.#pace.wanted()
        if (want === 0) {
          await this.#nudged(1_000)
          continue
        }
        const most = this.#pace.atOnce(want)
        // Whoever takes nothing ahead has room for what it looks back for now and then only.
        const reach = this.#pace.ahead === 0 ? this.#dueLook() : undefined
        const found = reach ? await this.#look(reach, most) : await this.#claim('onward', most)
        failures = 0
        this.#failure = undefined
        if (found > 0) this.#stayAwake(found)
        else if (!reach) await this.#sleep()
      } catch (error) {
        for (const { reject } of this.#waiting.splice(0)) reject(error)
        // It will not work again before somebody has done something about it.
        if (isInstance(error, SchemaVersionError)) this.#hasBegun = false
        if (this.#draining.signal.aborted) return
        this.#failure = { error }
        this.#options.events.to('worker.failed')?.({ queues: this.#options.queueNames, error })
        this.#pace.beginAnew()
        if (this.#broken) {
          this.#broken = undefined
          // Claims succeed meanwhile, and say nothing about it.
          if (performance.now() - brokenAt > forgetBrokenMs) breakdowns = 0
          brokenAt = performance.now()
          failures = Math.max(failures, breakdowns++)
        }
        // Whatever it is, it may pass; doctor and the observer tell about rights and schemas.
        await pause(backoffMs(failures++, 50, longestPauseMs), this.#draining.signal)
      }
    }
  }

  async #begin(life: Life): Promise<void> {
    const { number, presence, queues } = this.#options
    this.#forgetLife()
    this.#attempts.loseAll(this.#life?.loss)
    this.#cursors.reset()
    this.#isFlagged = false
    await this.#options.begun
    const [other] = await this.#ledger.run<{ other_instance: string | null; other_queue: string }>('enlist', [
      life.number,
      number,
      presence.instanceId,
      arrayOf(queues),
      this.#kinds,
      this.#claims.way,
    ])
    if (other!.other_instance !== null) {
      const name = this.#options.queueNames[queues.indexOf(other!.other_queue)]!
      throw new MixedClaimsError(this.#claims.way, name, other!.other_instance)
    }
    this.#life = life
    this.#forgetLife = life.onLoss((reason) => this.#attempts.loseAll(reason))
    clearInterval(this.#watchTimer)
    this.#watchTimer = setInterval(() => void this.#watch(watchEveryMs * 0.9), watchEveryMs)
    this.#lookTimer ??= setTimeout(() => this.#lookBack(), nearEveryMs)
    if (!life.trusted) throw life.loss
    this.#isReady()
  }

  #isReady(): void {
    this.#hasBegun = true
    for (const { resolve } of this.#waiting.splice(0)) resolve()
  }

  /** One claim; answers how many jobs it found. */
  async #claim(reach: Reach, most: number): Promise<number> {
    this.#options.rounds.checkVersion()
    const life = this.#life!
    const { levels } = this.#cursors
    const starts = this.#cursors.starts(reach)
    const looksBack = reach !== 'onward'
    // Whoever has nothing to do must know that somebody may die with work; from time to time is enough.
    const announces = performance.now() - this.#announcedAt >= announceEveryMs
    const found = await this.#claims.claim(life, {
      queues: levels.map(({ queue }) => queue),
      priorities: levels.map(({ priority }) => priority),
      starts,
      kinds: this.#kinds,
      most,
      announces,
      looksBack,
    })
    if (found.state === 'gone') {
      // Somebody has taken over from this life, so it is not ours any more, whatever it believes.
      if (this.#life === life) this.#life = undefined
      this.#attempts.loseAll(undefined)
      throw new Error('gone')
    }
    if (found.state === 'unsettled') throw new Error('unsettled')
    // First of all: a worker that has claimed jobs must begin them or give them back.
    if (found.jobs.length > 0) this.#take(life, found.fence, found.jobs)
    this.#isReady()
    if (looksBack && found.isAll) {
      if (found.oldest !== null) this.#cursors.sawAll(starts, BigInt(found.oldest))
      this.#cursors.mark(found.last, BigInt(found.newest!))
    }
    if (!looksBack && found.passed) this.#cursors.passed(found.passed)
    if (found.jobs.length > 0 && announces) this.#announcedAt = performance.now()
    return found.jobs.length
  }

  #take(life: Life, fence: number, rows: readonly Row[]): void {
    const claim: Claim = { life, fence, left: rows.length }
    this.#options.rounds.busy()
    if (life !== this.#life || !life.trusted) return
    let jobs: Claimed[]
    try {
      jobs = [...rows].sort(inOrder).map((row) => this.#claimed(row, claim))
    } catch (error) {
      for (const [id, , , seq = id] of rows) this.#endings.giveBack({ id, seq, claim })
      throw error
    }
    this.#attempts.take(jobs)
  }

  #claimed(row: Row, claim: Claim): Claimed {
    const [id, kind, input, seq = id, , failed = 0, crashes = 0, maxCrashes = 3, ties = null, cancelled = null] = row
    const definition = this.#definitions[kind - 1]!
    return { claim, definition, id, seq, input, failed, crashes, maxCrashes, ties, cancelled }
  }

  #nudge(): void {
    if (this.#wake && (this.#draining.signal.aborted || this.#pace.wanted() > 0)) this.#wake()
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
    this.#pace.took(found)
    if (this.#busySince === 0) this.#busySince = now
    if (this.#isFlagged && now - this.#busySince > busyBeforeAwakeMs) {
      this.#isFlagged = false
      // If it does not arrive, we are told of jobs although we look anyway.
      void this.#flag(false).catch(() => {})
    }
  }

  /** Nothing was found: asks to be told, looks again, and rests. */
  async #sleep(): Promise<void> {
    this.#busySince = 0
    this.#pace.beginAnew()
    if (!this.#isFlagged) {
      await this.#flag(true)
      this.#isFlagged = true
    }
    const longestMs = this.#options.hasListener ? 5_000 : 1_000
    for (let restMs = 20; ; restMs = Math.min(longestMs, restMs * 2)) {
      this.#cameByAt = performance.now()
      const want = this.#pace.wanted()
      this.#wasWoken = false
      const reach = this.#looks.whileIdle
      if (want > 0 && (await this.#claim(reach, this.#pace.atOnce(want))) > 0) return
      if (want > 0) this.#looks.idled(reach)
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
    // At the cost of a few more than it has room for: a job that came late must not wait for a queue that never ends.
    const most = Math.min(mostALook, this.#pace.ahead)
    const reach = most > 0 && this.#attempts.queued <= mostAhead ? this.#dueLook() : undefined
    if (reach) this.#lookingBack = this.#look(reach, most).catch(() => {})
  }

  #dueLook(): Look | undefined {
    return this.#busySince === 0 || !this.#life?.trusted ? undefined : this.#looks.due()
  }

  #look(reach: Look, most: number): Promise<number> {
    return this.#looks.make(reach, () => this.#claim(reach, most))
  }

  /** Asks about the jobs that have run for a while: whether they are still ours, and not cancelled. */
  async #watch(olderMs: number): Promise<void> {
    const life = this.#life
    if (!life) return
    await this.#claims.giveBackUnknown(life).catch(() => {})
    const runs = this.#attempts.olderThan(olderMs)
    if (runs.length === 0) return
    this.#options.rounds.busy()
    const rows = await this.#ledger
      .run<{ id: string; cancelled: string | null }>('watch', [
        arrayOf(runs.map(({ id }) => id)),
        arrayOf(runs.map(({ fence }) => fence)),
        placesOf(
          this.#claims,
          runs.map(({ job }) => job),
        ),
        life.number,
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

/** By priority, the larger first, and then by place. */
function inOrder([a, , , aSeq = a, aPriority = 0]: Row, [b, , , bSeq = b, bPriority = 0]: Row): number {
  return bPriority - aPriority || aSeq - bSeq
}
