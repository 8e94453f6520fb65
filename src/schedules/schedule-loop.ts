import {
  backoffMs,
  ClosedError,
  type Events,
  isInstance,
  type MiddlewareStack,
  pause,
  Readiness,
  type TracerSlot,
  Wakeup,
} from '../base/index.js'
import type { TransactionContext } from '../once/index.js'
import { arrayLiteral, type Epoch, type HealthReason, healthReasonOf, type Presence } from '../postgres/index.js'
import { horizonMs, isWatcher, planClaim } from './claim-order.js'
import { DatabaseClock } from './database-clock.js'
import { type Definition, keyOfSchedule } from './definition.js'
import type { Rules } from './rules.js'
import { Runs } from './runs.js'
import type { LookResult, ScheduleState, ScheduleStore, StartedRun } from './store.js'
import { firstTicks, planSettlement } from './ticks.js'

interface ScheduleLoopOptions {
  readonly store: ScheduleStore
  readonly presence: Presence
  readonly attempts: TransactionContext
  readonly namespace: string
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
  readonly rules: Rules
  /** Replaces the rule of the schedule that has this key with the definition's rule. */
  readonly adopt: (key: string, definition: Definition) => Promise<void>
}

/** Schedule in this instance's code. */
interface Entry {
  readonly definition: Definition
  /** Key of the schedule to which the name refers. Undefined until the schedule is declared in this epoch. */
  key: string | undefined
  /** Whether the schedule was declared in any epoch. */
  isDeclared: boolean
  state: ScheduleState | undefined
  /** Next tick that this instance claims. The instance assumes that other members settle the ticks before it. */
  tickMs: number
  /** Time at which to claim this tick, on the monotonic clock. */
  wakeAt: number
  /** Tick of the last claim. If another instance has locked the schedule, the claim is repeated. */
  claimedMs: number | undefined
  /** Calls that are waiting for the first declaration of the schedule. */
  readonly readiness: Readiness
}

/** Approximate pause between polls while any of the instance's schedules has an active run. */
const busyMs = 450
const idleMs = 5_000
const sweepEveryMs = 3_600_000
const retainDays = 30
const maxKept = 10_000
const minKept = 100
/** Delay before the instance tries again to claim a schedule that was locked. */
const againMs = 60
const maxPerStatement = 200

/** Declares an instance's schedules, polls, and claims due ticks. A single loop runs one statement at a time. */
export class ScheduleLoop {
  readonly clock = new DatabaseClock()
  readonly runs: Runs
  readonly #options: ScheduleLoopOptions
  readonly #store: ScheduleStore
  readonly #entries = new Map<string, Entry>()
  readonly #byKey = new Map<string, Entry>()
  /** Keys of schedules that have a waiting run that may start. */
  readonly #startable = new Set<string>()
  /** Keys of schedules that must adopt this instance's rule. */
  readonly #adoptable = new Set<string>()
  /** Earliest time of the next attempt to adopt a rule after an attempt has failed. */
  #adoptAt = 0
  readonly #closing = new AbortController()
  #epoch: Epoch | undefined
  /** Time of the next poll that cannot wait for the next full poll. */
  #pollAt = Infinity
  /** Time of the next full poll. Each look postpones it. */
  #fullPollAt = 0
  /** Schedules that this instance has claimed while they had an active run. */
  #watched: ReadonlySet<string> = new Set()
  /** State at the time of the last look. */
  #asked: { readonly epoch: Epoch; readonly schedules: number } | undefined
  #sweepAt = performance.now() + sweepEveryMs * Math.random()
  /** Largest fencing token that had been assigned at the last poll of this epoch. */
  #seenFence = 0
  /**
   * Number of polls that are still required after the last schedule was closed, because a claim whose response was lost
   * may have started runs.
   */
  #pendingPolls = 0
  readonly #wakeup = new Wakeup()
  #working: Promise<void> | undefined
  /** Error that caused the loop to pause. */
  #failure: { readonly error: unknown } | undefined

  constructor(options: ScheduleLoopOptions) {
    this.#options = options
    this.#store = options.store
    this.runs = new Runs({
      store: options.store,
      attempts: options.attempts,
      events: options.events,
      tracing: options.tracing,
      middleware: options.middleware,
      onWaiting: (keys) => {
        for (const key of keys) if (this.#byKey.has(key)) this.#startable.add(key)
        this.#wakeup.signal()
      },
    })
    options.presence.lookOnHeartbeat({
      name: 'schedules',
      text: options.store.look.text,
      ask: (epoch) => this.#ask(epoch),
      onAnswer: (answer) => this.#onLook(JSON.parse(answer)),
    })
  }

  /** Reason why schedules are not ticking in this instance. Undefined if the schedules are ticking. */
  get trouble(): HealthReason | undefined {
    if (this.#closing.signal.aborted) return undefined
    if (this.#failure) return healthReasonOf('SCHEDULES_FAILED', 'Scheduled runs cannot start', this.#failure.error)
    const { failure } = this.runs
    return (
      failure && healthReasonOf('SCHEDULES_FAILED', 'The results of scheduled runs cannot be recorded', failure.error)
    )
  }

  add(definition: Definition): void {
    const { name } = definition
    const readiness = new Readiness('The schedule')
    this.#entries.set(name, {
      definition,
      key: undefined,
      isDeclared: false,
      state: undefined,
      tickMs: 0,
      wakeAt: Infinity,
      claimedMs: undefined,
      readiness,
    })
    this.#working ??= this.#work()
    this.#wakeup.signal()
  }

  /**
   * Resolves when the schedule with this name has been declared. Resolves immediately if this instance has not added
   * the schedule, and when the schedule is closed. Rejects if the declaration fails.
   */
  async declared(name: string): Promise<void> {
    try {
      await this.#entries.get(name)?.readiness.wait()
    } catch (error) {
      if (!isInstance(error, ClosedError)) throw error
    }
  }

  /** Resolves when the schedule is declared. Rejects if the next attempt to declare it fails, and after `remove`. */
  ready(definition: Definition): Promise<void> {
    const entry = this.#entries.get(definition.name)
    return entry?.definition === definition ? entry.readiness.wait() : Promise.reject(new ClosedError('The schedule'))
  }

  /** Stops claiming a schedule's ticks, and waits until its runs have ended. */
  async remove(definition: Definition, withinMs: number): Promise<void> {
    const entry = this.#entries.get(definition.name)
    this.#entries.delete(definition.name)
    entry?.readiness.close()
    if (entry?.key !== undefined) {
      this.#byKey.delete(entry.key)
      await this.#withdraw([entry.key])
    }
    await this.runs.drain((run) => run.definition === definition, withinMs)
  }

  /** Starts a full poll soon. With a key, does so only if this instance has declared that schedule. */
  refresh(key: string | undefined): void {
    if (key !== undefined && !this.#byKey.has(key)) return
    this.#fullPollAt = 0
    this.#wakeup.signal()
  }

  pollSoon(): void {
    this.#pollAt = 0
    this.#wakeup.signal()
  }

  async close(withinMs: number): Promise<void> {
    this.#closing.abort()
    this.#wakeup.signal()
    await this.#working
    const keys = [...this.#byKey.keys()]
    for (const { readiness } of this.#entries.values()) readiness.close()
    this.#entries.clear()
    this.#byKey.clear()
    if (keys.length > 0) await this.#withdraw(keys)
    await this.runs.drain(() => true, withinMs)
    this.runs.close()
  }

  async #work(): Promise<void> {
    for (let failures = 0; !this.#closing.signal.aborted; ) {
      try {
        if (this.#entries.size === 0 && this.#pendingPolls === 0) await this.#rest(Infinity)
        else await this.#step()
        failures = 0
        this.#failure = undefined
      } catch (error) {
        if (this.#closing.signal.aborted) return
        this.#failure = { error }
        this.#options.events.emitter('scheduler.failed')?.({ error })
        this.#fullPollAt = 0
        // Retries after any error. The doctor reports missing privileges and schema errors.
        await pause(backoffMs(failures++, 50, 5_000), this.#closing.signal)
      }
    }
  }

  /** Performs the most urgent pending action. */
  async #step(): Promise<void> {
    const epoch = await this.#options.presence.whenPresent(this.#closing.signal)
    if (epoch !== this.#epoch) this.#beginEpoch(epoch)
    const now = performance.now()
    const undeclared = [...this.#entries.values()].filter(({ key }) => key === undefined)
    if (undeclared.length > 0) {
      return this.#declare(epoch, undeclared).catch((error) => {
        for (const { readiness } of undeclared) readiness.fail(error)
        throw error
      })
    }
    if (this.#adoptable.size > 0 && now >= this.#adoptAt) return this.#adopt()
    if (now >= Math.min(this.#pollAt, this.#fullPollAt)) return this.#poll(epoch)
    const due = [...this.#entries.values()].filter(({ wakeAt }) => wakeAt <= now)
    if (due.length > 0 || this.#startable.size > 0) return this.#claim(epoch, due)
    if (now >= this.#sweepAt) return this.#sweep()
    const wakeAt = Math.min(this.#pollAt, this.#fullPollAt, ...[...this.#entries.values()].map((entry) => entry.wakeAt))
    await this.#rest(wakeAt - now)
  }

  #beginEpoch(epoch: Epoch): void {
    this.#epoch = epoch
    this.#seenFence = 0
    this.#startable.clear()
    this.#byKey.clear()
    for (const entry of this.#entries.values()) {
      entry.key = undefined
      entry.state = undefined
      entry.wakeAt = Infinity
    }
  }

  async #declare(epoch: Epoch, entries: readonly Entry[]): Promise<void> {
    const [row] = await this.#store.run<{ now: number }>('now', [])
    this.clock.set(row!.now)
    const portion = entries.slice(0, maxPerStatement)
    const { namespace } = this.#options
    const requests = portion.map(({ definition, isDeclared }) => {
      const { name, key, was, rule, overlap, missed, catchUp, reruns, job } = definition
      const { ticks, isOver } = firstTicks(rule, this.clock.now())
      const former = was === undefined ? undefined : keyOfSchedule(namespace, was)
      const options = { rule: rule.text, overlap, missed, catch_up: catchUp, reruns }
      const target = { job_queue: job?.queue, job_kind: job?.kind }
      const first = { first_ticks: ticks, is_over: isOver }
      return { key, namespace, name, former_key: former, ...options, is_repeated: isDeclared, ...target, ...first }
    })
    const answer = await this.#store.call('declare', [epoch.number, this.#instance, JSON.stringify(requests)])
    this.clock.set(answer.now)
    const keys = new Map(answer.declared.map(([key, schedule]) => [key, schedule]))
    for (const entry of portion) {
      entry.key = keys.get(entry.definition.key)
      if (entry.key !== undefined) {
        entry.isDeclared = true
        entry.readiness.succeed()
      }
      // If the schedule was closed while the statement was running, ends the new membership.
      if (this.#entries.get(entry.definition.name) !== entry) {
        if (entry.key !== undefined) await this.#withdraw([entry.key])
      } else if (entry.key !== undefined) this.#byKey.set(entry.key, entry)
    }
    for (const [, schedule, adopts] of answer.declared) if (adopts) this.#adoptable.add(schedule)
    this.#applyStates(answer.states)
    this.#fullPollAt = 0
  }

  async #adopt(): Promise<void> {
    for (const key of [...this.#adoptable]) {
      const entry = this.#byKey.get(key)
      try {
        if (entry) await this.#options.adopt(key, entry.definition)
        this.#adoptable.delete(key)
      } catch {
        // The adoption can fail, for example if this version of Holdfast cannot read the current rule. The other
        // schedules continue.
        this.#adoptAt = performance.now() + idleMs
      }
    }
    this.refresh(undefined)
  }

  async #poll(epoch: Epoch): Promise<void> {
    const isLong = performance.now() >= this.#fullPollAt
    // The times are set before the statement is sent, because a notification may request another poll before the
    // response arrives.
    this.#pollAt = Infinity
    if (isLong) this.#fullPollAt = between(idleMs)
    const answer = await this.#store.call('poll', [
      epoch.number,
      this.#instance,
      arrayLiteral(this.runs.fences),
      this.#seenFence,
      isLong ? horizonMs : null,
    ])
    this.clock.set(answer.now)
    this.#seenFence = answer.fence
    this.#pendingPolls = Math.max(0, this.#pendingPolls - 1)
    // Another process removed this instance's membership rows, so all schedules must be declared again.
    if (answer.soon && answer.soon.members < this.#byKey.size) this.#beginEpoch(epoch)
    else this.#watched = new Set(this.#applyLook(answer))
    if (answer.begin) this.#pollAt = Math.min(this.#pollAt, between(busyMs))
  }

  /** Returns the parameter of the look. Undefined if this instance has no schedules in this epoch. */
  #ask(epoch: Epoch): string | undefined {
    this.#asked = undefined
    if (epoch !== this.#epoch || this.#byKey.size === 0) return undefined
    this.#asked = { epoch, schedules: this.#byKey.size }
    return JSON.stringify({
      session: epoch.number,
      instance: this.#instance,
      fences: arrayLiteral(this.runs.fences),
      max_fence: this.#seenFence,
      horizon_ms: horizonMs,
    })
  }

  /**
   * Applies the result of a look. If a poll would change nothing, the look replaces the next full poll. Otherwise,
   * starts a full poll.
   */
  #onLook(answer: LookResult): void {
    if (this.#asked === undefined || this.#asked.epoch !== this.#epoch) return
    this.#applyLook(answer)
    const hasLostMembership = answer.soon!.members < Math.min(this.#asked.schedules, this.#byKey.size)
    if (answer.repairs || hasLostMembership) this.#fullPollAt = 0
    else if (performance.now() < this.#fullPollAt) this.#fullPollAt = between(idleMs)
    this.#wakeup.signal()
  }

  /** Returns the schedules whose active runs this instance watches. */
  #applyLook({ stopping, begin, soon, runs }: LookResult): string[] {
    for (const [fence] of stopping ?? []) this.runs.stop(fence)
    for (const key of begin ?? []) if (this.#byKey.has(key)) this.#startable.add(key)
    if (soon) {
      this.#applyStates(soon.states)
      for (const key of soon.adopt ?? []) this.#adoptable.add(key)
    }
    const watched = (runs ?? []).filter((key) => {
      const state = this.#byKey.get(key)?.state
      return this.#watched.has(key) || (state && isWatcher(state))
    })
    if (watched.length > 0) this.#pollAt = Math.min(this.#pollAt, between(busyMs))
    return watched
  }

  async #claim(epoch: Epoch, due: readonly Entry[]): Promise<void> {
    // Selects schedules at random if too many are due, so that the fleet's instances share the work.
    const portion = due.length <= maxPerStatement ? due : shuffled(due).slice(0, maxPerStatement)
    const requests: object[] = []
    for (const entry of portion) {
      const settles = this.#planSettlement(entry)
      if (settles) requests.push(settles)
      entry.claimedMs = entry.tickMs
      // The response replaces this wake-up time.
      entry.wakeAt = performance.now() + againMs * (0.5 + Math.random())
    }
    const startable = [...this.#startable].filter((key) => !this.runs.hasLostRun(key))
    for (const key of startable) requests.push({ id: key, begins: true })
    this.#startable.clear()
    if (requests.length === 0) return
    this.#pendingPolls = 2
    const answer = await this.#store.call('claim', [epoch.number, this.#instance, JSON.stringify(requests)])
    if (answer.state === 'in-grace')
      throw new Error('The database server started recently. No runs can start until the grace period has ended')
    this.clock.set(answer.now)
    this.#applyStates(answer.states)
    for (const started of answer.started) this.#start(epoch, started)
    // Polls again soon, because another instance may crash during its run, or a run may have to stop.
    this.#watched = new Set([...this.#watched, ...portion.flatMap(({ key }) => key ?? []), ...startable])
    this.#pollAt = Math.min(this.#pollAt, performance.now() + busyMs)
  }

  #start(epoch: Epoch, started: StartedRun): void {
    const entry = this.#byKey.get(started[0])
    // Does not start the run if the schedule was closed or the epoch was lost. A member's later poll then returns the
    // tick to `waiting`.
    if (entry && epoch.trusted) this.runs.start(entry.definition, started, epoch)
  }

  /**
   * Returns the claim request for a due schedule. Undefined if the schedule's rule is unreadable or has no more ticks.
   */
  #planSettlement({ state, tickMs }: Entry): object | undefined {
    if (!state) return undefined
    const [key, text, nextMs, , , catchUp, firstMemberMs] = state
    const rule = this.#options.rules.of(text)
    if (!rule || nextMs === null) return undefined
    const begins = !this.runs.hasLostRun(key)
    const due = planSettlement(rule, tickMs, this.clock.now(), Math.max(1, catchUp), firstMemberMs ?? undefined)
    return { id: key, rule: text, begins, ...due }
  }

  #applyStates(states: readonly ScheduleState[] | null): void {
    for (const state of states ?? []) {
      const entry = this.#byKey.get(state[0])
      if (!entry) continue
      const [, text, nextMs, dueMs] = state
      const isSame = entry.state?.[1] === text && entry.claimedMs === nextMs
      entry.state = state
      // The tick is still due after this instance's claim, because another instance has locked the schedule. #claim has
      // already set the time of the next attempt.
      if (isSame && dueMs !== null && dueMs <= 0) continue
      entry.claimedMs = undefined
      const rule = this.#options.rules.of(text)
      const plan = rule && planClaim(state, rule, entry.definition, this.#instance)
      entry.tickMs = plan?.tickMs ?? 0
      entry.wakeAt = plan ? performance.now() + plan.inMs : Infinity
    }
  }

  async #sweep(): Promise<void> {
    this.#sweepAt = performance.now() + sweepEveryMs * (0.75 + Math.random() / 2)
    await this.#store.run('sweep', [retainDays, maxKept, minKept])
  }

  async #withdraw(keys: readonly string[]): Promise<void> {
    await this.#store.run('withdraw', [this.#instance, arrayLiteral(keys)]).catch(() => {})
  }

  get #instance(): string {
    return this.#options.presence.instanceId
  }

  /** Waits for `ms` milliseconds, or until the loop is woken up. */
  async #rest(ms: number): Promise<void> {
    await this.#wakeup.wait(Math.min(Math.max(0, ms), 60_000))
    this.#wakeup.clear()
  }
}

/** Returns the time after approximately `ms` milliseconds. */
function between(ms: number): number {
  return performance.now() + ms * (0.7 + Math.random() * 0.4)
}

function shuffled<T>(all: readonly T[]): T[] {
  return all
    .map((one) => ({ one, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ one }) => one)
}
