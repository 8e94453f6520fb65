import { backoffMs, type Events, hashedKey, pause, Wakeup } from '../base/index.js'
import { arrayLiteral, type HealthReason, healthReasonOf, type Presence } from '../postgres/index.js'
import type { JobPort } from './definition.js'
import type { Rules } from './rules.js'
import type { ScheduleStore, StoredState } from './store.js'
import { planSettlement } from './ticks.js'

interface StoredTickerOptions {
  readonly store: ScheduleStore
  readonly presence: Presence
  readonly namespace: string
  readonly events: Events
  readonly rules: Rules
  readonly jobs: JobPort
}

/** Maximum number of due schedules per statement. */
const maxPerStatement = 1_000
/**
 * Minimum time between two statements, unless the first returned a full batch of schedules to plan. Ticks that become due within this time
 * share a statement.
 */
const paceMs = 100
/** Without heartbeats, an instance polls this often. */
const pollMs = 5_000
/** Random delay of an instance that is on standby, so that the instances do not claim at the same time. */
const spreadMs = 100
/** Time after which a full batch may contain a locked schedule again. */
const forgetLockedMs = 1_000
/** Time after which an unreadable rule is read again. */
const forgetUnreadableMs = 60_000
const sweepEveryMs = 3_600_000
const sweepPauseMs = 5_000
const maxPerSweep = 200
const retainDays = 30
const maxKept = 200
const minKept = 100

/**
 * Settles the ticks of the namespace's stored schedules. Each instance that has a job worker runs this loop, and one of
 * these instances at a time receives the due schedules. Each statement settles the ticks that the previous statement
 * returned, and returns the ticks to settle next. The loop sleeps while no tick is due.
 */
export class StoredTicker {
  readonly #options: StoredTickerOptions
  readonly #channelKey: string
  readonly #hasLook: boolean
  readonly #closing = new AbortController()
  readonly #wakeup = new Wakeup()
  #isDraining = false
  #working: Promise<void> | undefined
  /** Time of the next statement, on the monotonic clock. */
  #wakeAt = Infinity
  /** Keys of schedules whose rules this version cannot read. */
  #unreadable = new Set<string>()
  #forgetAt = 0
  /** State of each schedule in the plans for the last full batch. */
  #planned = new Map<string, StoredState>()
  /**
   * Keys of schedules that another transaction has locked, with the time until which the batches omit them. Without
   * this map, 1,000 locked schedules would fill every batch, and no other schedule would tick.
   */
  readonly #locked = new Map<string, number>()
  #sweepAt = performance.now() + sweepEveryMs * Math.random()
  #sweptKey = '-9223372036854775808'
  #failure: { readonly error: unknown } | undefined

  constructor(options: StoredTickerOptions) {
    this.#options = options
    this.#channelKey = hashedKey(options.namespace, 'schedules').key
    this.#hasLook = options.presence.lookOnHeartbeat({
      name: 'stored schedules',
      text: options.store.lookStored.text,
      ask: () => (this.#isActive ? options.namespace : undefined),
      onAnswer: (answer) => {
        const dueMs: number | null = JSON.parse(answer)
        if (dueMs !== null) this.#wakeIn(dueMs + Math.random() * spreadMs)
      },
    })
  }

  /** Reason why stored schedules are not ticking in this instance. Undefined if they are. */
  get trouble(): HealthReason | undefined {
    if (!this.#failure || this.#closing.signal.aborted) return undefined
    return healthReasonOf('SCHEDULES_FAILED', 'Ticks of stored schedules cannot be recorded', this.#failure.error)
  }

  /** Starts the loop once the instance has a job worker. */
  start(): void {
    this.#working ??= this.#work()
    this.#wakeIn(Math.random() * spreadMs)
  }

  /** Checks for due ticks soon if stored schedules in this namespace have changed. */
  onChanged(channelKey: string): void {
    if (channelKey === this.#channelKey && this.#isActive) this.#wakeIn(Math.random() * spreadMs)
  }

  /** Leaves the ticks to other instances. */
  drain(): void {
    this.#isDraining = true
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#wakeup.signal()
    await this.#working
  }

  get #isActive(): boolean {
    return this.#working !== undefined && !this.#isDraining && this.#options.jobs.hasWorker
  }

  #wakeIn(ms: number): void {
    this.#wakeAt = Math.min(this.#wakeAt, performance.now() + ms)
    this.#wakeup.signal()
  }

  async #work(): Promise<void> {
    const { signal } = this.#closing
    let plans: object[] = []
    for (let failures = 0; !signal.aborted; ) {
      try {
        const isDue = this.#isActive && performance.now() >= this.#wakeAt
        if (isDue) plans = await this.#tick(plans)
        else if (this.#isActive && performance.now() >= this.#sweepAt) await this.#sweep()
        else await this.#rest()
        if (isDue) {
          failures = 0
          this.#failure = undefined
        }
      } catch (error) {
        if (signal.aborted) return
        // The statement may have succeeded, so the next statement reads the schedules again.
        plans = []
        this.#failure = { error }
        this.#options.events.emitter('scheduler.failed')?.({ error })
        this.#wakeAt = 0
        await pause(backoffMs(failures++, 50, 5_000), signal)
      }
    }
  }

  /** Sends the plans, and returns the plans for the schedules that are due next. */
  async #tick(plans: readonly object[]): Promise<object[]> {
    const { store, presence, namespace } = this.#options
    const sentAt = performance.now()
    if (sentAt >= this.#forgetAt) {
      this.#unreadable.clear()
      this.#forgetAt = sentAt + forgetUnreadableMs
    }
    for (const [key, until] of this.#locked) if (sentAt >= until) this.#locked.delete(key)
    const omitted = [...this.#unreadable, ...this.#locked.keys()]
    // Set before the statement is sent, because a notification may arrive before the response.
    this.#wakeAt = Infinity
    const answer = await store.call('tick_stored', [
      namespace,
      presence.instanceId,
      JSON.stringify(plans),
      maxPerStatement,
      arrayLiteral(omitted),
    ])
    if (answer.state === 'standby') {
      this.#wakeIn(answer.wait_ms + Math.random() * spreadMs)
      return []
    }
    const { due, now, wait_ms: waitMs } = answer
    const plannable = this.#withoutLocked(due)
    if (plannable.length >= maxPerStatement) this.#wakeAt = sentAt
    else if (due.length > 0) this.#wakeAt = Math.min(this.#wakeAt, sentAt + paceMs)
    else if (waitMs !== null) {
      // An unreadable schedule counts as due.
      const minMs = this.#unreadable.size > 0 ? 10 * paceMs : paceMs
      this.#wakeAt = Math.min(this.#wakeAt, Math.max(sentAt + minMs, performance.now() + waitMs))
    }
    this.#planned = new Map(due.length < maxPerStatement ? [] : plannable.map((state) => [state[0], state]))
    return this.#planAll(plannable, now)
  }

  /**
   * Omits the schedules that a full batch contains unchanged although they were planned. Their rows are locked, so the
   * statement has skipped them.
   */
  #withoutLocked(due: readonly StoredState[]): readonly StoredState[] {
    if (due.length < maxPerStatement) return due
    return due.filter((state) => {
      const isLocked = JSON.stringify(this.#planned.get(state[0])) === JSON.stringify(state)
      if (isLocked) this.#locked.set(state[0], performance.now() + forgetLockedMs)
      return !isLocked
    })
  }

  #planAll(due: readonly StoredState[], nowMs: number): object[] {
    // Thousands of schedules have the same rule and the same tick.
    const known = new Map<string, object | undefined>()
    return due.flatMap((state) => {
      const [key, ...rest] = state
      const same = rest.join('\0')
      if (!known.has(same)) known.set(same, this.#plan(state, nowMs))
      const plan = known.get(same)
      if (plan !== undefined) return [{ id: key, ...plan }]
      this.#unreadable.add(key)
      return []
    })
  }

  /** Returns the arguments of `schedule_settle_stored` for a schedule. Undefined if this version cannot read a rule. */
  #plan([, rule, nextMs, catchUp, changedAt, changedMs, newRule]: StoredState, nowMs: number): object | undefined {
    const before = this.#options.rules.of(rule)
    const after = this.#options.rules.of(newRule)
    if (!after || (!before && nextMs !== null)) return undefined
    const untilMs = changedMs ?? nowMs
    const settles =
      nextMs !== null && nextMs <= untilMs && planSettlement(before!, nextMs, untilMs, Math.max(1, catchUp), undefined)
    return {
      rule,
      new_rule: newRule,
      next_at: nextMs === null ? null : new Date(nextMs),
      ...(settles || {}),
      ...(changedMs === null ? {} : { changed_at: changedAt, first: after.next(new Date(changedMs)) }),
    }
  }

  /** Sweeps some schedules, and continues with the next ones after a pause. */
  async #sweep(): Promise<void> {
    this.#sweepAt = performance.now() + sweepPauseMs
    const values = [this.#sweptKey, maxPerSweep, retainDays, maxKept, minKept]
    const [row] = await this.#options.store.run<{ last_key: string | null }>('sweep_stored', values)
    if (row!.last_key !== null) {
      this.#sweptKey = row!.last_key
      return
    }
    this.#sweptKey = '-9223372036854775808'
    this.#sweepAt = performance.now() + sweepEveryMs * (0.75 + Math.random() / 2)
  }

  async #rest(): Promise<void> {
    const wakeAt = this.#isActive ? Math.min(this.#wakeAt, this.#sweepAt) : Infinity
    const maxMs = this.#hasLook ? 60_000 : pollMs
    const isWoken = await this.#wakeup.wait(Math.min(maxMs, Math.max(0, wakeAt - performance.now())))
    this.#wakeup.clear()
    if (!isWoken && !this.#hasLook && this.#wakeAt === Infinity) this.#wakeAt = 0
  }
}
