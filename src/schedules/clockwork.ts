import { backoffMs, type Events, Nudge, pause, type Tracing } from '../base/index.js'
import { arrayOf, type HealthReason, type Life, type Presence, troubleOf } from '../postgres/index.js'
import { DatabaseClock } from './clock.js'
import { type Definition, keyOfSchedule } from './definition.js'
import type { Begun, Ledger, Standing } from './ledger.js'
import type { Rules } from './rules.js'
import { Runs } from './runs.js'
import { firstTicks, settling } from './ticks.js'

interface ClockworkOptions {
  readonly ledger: Ledger
  readonly presence: Presence
  readonly namespace: string
  readonly events: Events
  readonly tracing: Tracing
  readonly rules: Rules
  /** Adopts the rule of this definition for the schedule with this key. */
  readonly adopt: (key: string, definition: Definition) => Promise<void>
}

/** A schedule that this instance has in its code. */
interface Entry {
  readonly definition: Definition
  /** The key of the schedule that its name leads to; undefined until it is declared in this life. */
  key: string | undefined
  standing: Standing | undefined
  /** When to take it, on the monotonic clock. */
  wakeAt: number
  /** Calls that wait until it is declared for the first time; undefined from then on. */
  waiters: Waiter[] | undefined
}

interface Waiter {
  resolve(): void
  reject(error: unknown): void
}

/** How often a look, give or take, while something of its schedules runs. */
const busyMs = 450
const idleMs = 5_000
/** What is due so soon is told by a look. */
const horizonMs = 15_000
const sweepEveryMs = 3_600_000
const keepDays = 30
const keepMost = 10_000
const keepLeast = 100
/** What another has locked is looked at again so much later. */
const againMs = 60
const mostTogether = 200

/**
 * What makes the schedules of an instance tick: one loop, which declares, looks, and takes what is due, one statement
 * after the other.
 *
 *     asleep ──(a schedule is added)──► a life ──► declared ──► looks and takes … ──► closed
 *                                         ▲                           │
 *                                         └───── the life is lost ◄───┘
 */
export class Clockwork {
  readonly clock = new DatabaseClock()
  readonly runs: Runs
  readonly #options: ClockworkOptions
  readonly #ledger: Ledger
  readonly #entries = new Map<string, Entry>()
  readonly #byKey = new Map<string, Entry>()
  /** Keys of schedules of which something may begin. */
  readonly #begins = new Set<string>()
  /** Keys of schedules whose rule is to become that of our code. */
  readonly #adopts = new Set<string>()
  /** Not before, for the last attempt has failed. */
  #adoptAt = 0
  readonly #closing = new AbortController()
  #life: Life | undefined
  #lookAt = 0
  #longLookAt = 0
  #sweepAt = performance.now() + sweepEveryMs * Math.random()
  /** The last fence that had been drawn at our last look in this life. */
  #seenFence = 0
  /** So many looks must yet be made, also when no schedule is left: a take may have begun what we have not heard of. */
  #owedLooks = 0
  readonly #nudge = new Nudge()
  #working: Promise<void> | undefined
  /** Why the loop pauses. */
  #failure: { readonly error: unknown } | undefined

  constructor(options: ClockworkOptions) {
    this.#options = options
    this.#ledger = options.ledger
    this.runs = new Runs({
      ledger: options.ledger,
      events: options.events,
      tracing: options.tracing,
      onWaiting: (keys) => {
        for (const key of keys) if (this.#byKey.has(key)) this.#begins.add(key)
        this.#nudge.give()
      },
    })
  }

  /** Why schedules do not tick here, at present. */
  get trouble(): HealthReason | undefined {
    if (this.#closing.signal.aborted) return undefined
    if (this.#failure) return troubleOf('SCHEDULES_FAILED', 'The schedules cannot tick', this.#failure.error)
    const { failure } = this.runs
    return failure && troubleOf('SCHEDULES_FAILED', 'The ends of runs cannot be recorded', failure.error)
  }

  add(definition: Definition): void {
    const { name } = definition
    this.#entries.set(name, { definition, key: undefined, standing: undefined, wakeAt: Infinity, waiters: [] })
    this.#working ??= this.#work()
    this.#nudge.give()
  }

  /**
   * Resolves when the database knows the schedule that this instance has added under this name, and for any other name. Rejects
   * when the instance fails to declare it, and would try again.
   */
  declared(name: string): Promise<void> {
    const waiters = this.#entries.get(name)?.waiters
    if (waiters === undefined) return Promise.resolve()
    return new Promise((resolve, reject) => waiters.push({ resolve, reject }))
  }

  /** Takes no more ticks of a schedule, and lets its runs come to their ends. */
  async remove(definition: Definition, withinMs: number): Promise<void> {
    const entry = this.#entries.get(definition.name)
    this.#entries.delete(definition.name)
    for (const { resolve } of entry?.waiters ?? []) resolve()
    if (entry?.key !== undefined) {
      this.#byKey.delete(entry.key)
      await this.#withdraw([entry.key])
    }
    await this.runs.drain((run) => run.definition === definition, withinMs)
  }

  /** What was told of a schedule, or of all, may not be true any more. */
  hear(key: string | undefined): void {
    if (key !== undefined && !this.#byKey.has(key)) return
    this.#longLookAt = 0
    this.#lookAt = 0
    this.#nudge.give()
  }

  /** One of our runs is to stop, or there is something to begin. */
  lookSoon(): void {
    this.#lookAt = 0
    this.#nudge.give()
  }

  async close(withinMs: number): Promise<void> {
    this.#closing.abort()
    this.#nudge.give()
    await this.#working
    const keys = [...this.#byKey.keys()]
    this.#entries.clear()
    this.#byKey.clear()
    if (keys.length > 0) await this.#withdraw(keys)
    await this.runs.drain(() => true, withinMs)
    this.runs.close()
  }

  async #work(): Promise<void> {
    for (let failures = 0; !this.#closing.signal.aborted; ) {
      try {
        if (this.#entries.size === 0 && this.#owedLooks === 0) await this.#rest(Infinity)
        else await this.#step()
        failures = 0
        this.#failure = undefined
      } catch (error) {
        if (this.#closing.signal.aborted) return
        this.#failure = { error }
        this.#lookAt = 0
        // Whatever it is, it may pass; doctor and the observer tell about rights and schemas.
        await pause(backoffMs(failures++, 50, 5_000), this.#closing.signal)
      }
    }
  }

  /** What is most urgent. */
  async #step(): Promise<void> {
    const life = await this.#options.presence.whenLiving(this.#closing.signal)
    if (life !== this.#life) this.#begin(life)
    const now = performance.now()
    const undeclared = [...this.#entries.values()].filter(({ key }) => key === undefined)
    if (undeclared.length > 0) {
      return this.#declare(life, undeclared).catch((error) => {
        for (const { waiters } of undeclared) for (const { reject } of waiters?.splice(0) ?? []) reject(error)
        throw error
      })
    }
    if (this.#adopts.size > 0 && now >= this.#adoptAt) return this.#adopt()
    if (now >= this.#lookAt) return this.#look(life)
    const due = [...this.#entries.values()].filter(({ wakeAt }) => wakeAt <= now)
    if (due.length > 0 || this.#begins.size > 0) return this.#take(life, due)
    if (now >= this.#sweepAt) return this.#sweep()
    const wakeAt = Math.min(this.#lookAt, ...[...this.#entries.values()].map((entry) => entry.wakeAt))
    await this.#rest(wakeAt - now)
  }

  #begin(life: Life): void {
    this.#life = life
    this.#seenFence = 0
    this.#begins.clear()
    this.#byKey.clear()
    for (const entry of this.#entries.values()) {
      entry.key = undefined
      entry.standing = undefined
      entry.wakeAt = Infinity
    }
  }

  async #declare(life: Life, entries: readonly Entry[]): Promise<void> {
    const [row] = await this.#ledger.run<{ now: number }>('now', [])
    this.clock.learn(row!.now)
    const portion = entries.slice(0, mostTogether)
    const asked = portion.map(({ definition }) => {
      const { name, key, was, rule, overlap, missed, late, reruns } = definition
      const { ticks, isOver } = firstTicks(rule, this.clock.now())
      const former = was === undefined ? undefined : keyOfSchedule(this.#options.namespace, was)
      const options = { rule: rule.text, overlap, missed, late, reruns }
      return { key, namespace: this.#options.namespace, name, was: former, ...options, firsts: ticks, is_over: isOver }
    })
    const answer = await this.#ledger.ask('declare', [life.number, this.#instance, JSON.stringify(asked)])
    this.clock.learn(answer.now)
    const keys = new Map(answer.declared.map(([key, schedule]) => [key, schedule]))
    for (const entry of portion) {
      entry.key = keys.get(entry.definition.key)
      if (entry.key !== undefined) {
        for (const { resolve } of entry.waiters ?? []) resolve()
        entry.waiters = undefined
      }
      // It was closed meanwhile.
      if (this.#entries.get(entry.definition.name) !== entry) {
        if (entry.key !== undefined) await this.#withdraw([entry.key])
      } else if (entry.key !== undefined) this.#byKey.set(entry.key, entry)
    }
    for (const [, schedule, adopts] of answer.declared) if (adopts) this.#adopts.add(schedule)
    this.#learn(answer.states)
    this.#longLookAt = 0
    this.#lookAt = 0
  }

  async #adopt(): Promise<void> {
    for (const key of [...this.#adopts]) {
      const entry = this.#byKey.get(key)
      try {
        if (entry) await this.#options.adopt(key, entry.definition)
        this.#adopts.delete(key)
      } catch {
        // A rule in force that cannot be read here, for example: the other schedules must not suffer from it.
        this.#adoptAt = performance.now() + idleMs
      }
    }
    this.hear(undefined)
  }

  async #look(life: Life): Promise<void> {
    const sentAt = performance.now()
    const isLong = sentAt >= this.#longLookAt
    const answer = await this.#ledger.ask('look', [
      life.number,
      this.#instance,
      arrayOf(this.runs.fences),
      this.#seenFence,
      isLong ? horizonMs : null,
    ])
    this.clock.learn(answer.now)
    this.#seenFence = answer.fence
    this.#owedLooks = Math.max(0, this.#owedLooks - 1)
    for (const [fence] of answer.stopping ?? []) this.runs.stop(fence)
    for (const key of answer.begin ?? []) if (this.#byKey.has(key)) this.#begins.add(key)
    if (answer.soon) {
      this.#learn(answer.soon.states)
      for (const key of answer.soon.adopt ?? []) this.#adopts.add(key)
      // Somebody has taken our rows away: nothing is sure any more.
      if (answer.soon.members < this.#byKey.size) this.#begin(life)
    }
    const between = (ms: number) => performance.now() + ms * (0.7 + Math.random() * 0.4)
    if (isLong) this.#longLookAt = between(idleMs)
    this.#lookAt = answer.runs || answer.begin ? between(busyMs) : Math.max(this.#longLookAt, between(busyMs))
  }

  async #take(life: Life, due: readonly Entry[]): Promise<void> {
    // In portions, and each instance in another order, so that a fleet divides them.
    const portion = due.length <= mostTogether ? due : shuffled(due).slice(0, mostTogether)
    const asked: object[] = []
    for (const entry of portion) {
      const settles = this.#settling(entry)
      if (settles) asked.push(settles)
      // Until it is answered otherwise.
      entry.wakeAt = performance.now() + againMs * (0.5 + Math.random())
    }
    for (const key of this.#begins) if (!this.runs.isLeftIn(key)) asked.push({ id: key, begins: true })
    this.#begins.clear()
    if (asked.length === 0) return
    this.#owedLooks = 2
    const answer = await this.#ledger.ask('take', [life.number, this.#instance, JSON.stringify(asked)])
    if (answer.state === 'unsettled') throw new Error('unsettled')
    this.clock.learn(answer.now)
    this.#learn(answer.states)
    for (const begun of answer.begun) this.#start(life, begun)
    // Whoever runs it now, others or we, may die of it, or be told to stop.
    this.#lookAt = Math.min(this.#lookAt, performance.now() + busyMs)
  }

  #start(life: Life, begun: Begun): void {
    const entry = this.#byKey.get(begun[0])
    // It was closed meanwhile, or the process was frozen: the next look of somebody lets the tick wait again.
    if (entry && life.trusted) this.runs.start(entry.definition, begun, life)
  }

  /** What is to be said of a schedule that is due, or undefined when its rule cannot be read, or is over. */
  #settling({ standing }: Entry): object | undefined {
    if (!standing) return undefined
    const [key, text, nextMs, , , late, mannedMs] = standing
    const rule = this.#options.rules.of(text)
    if (!rule || nextMs === null) return undefined
    const begins = !this.runs.isLeftIn(key)
    const due = settling(rule, nextMs, this.clock.now(), Math.max(1, late), mannedMs ?? undefined)
    return { id: key, rule: text, begins, ...due }
  }

  #learn(states: readonly Standing[] | null): void {
    for (const standing of states ?? []) {
      const entry = this.#byKey.get(standing[0])
      if (!entry) continue
      const [, , nextMs, dueMs] = standing
      const wasSeen = entry.standing?.[2] === nextMs && entry.standing[1] === standing[1]
      entry.standing = standing
      // Due, and still not taken: another is at it, and if not, we are again in a moment.
      if (wasSeen && dueMs !== null && dueMs <= 0) continue
      entry.wakeAt = this.#wakeAt(entry)
    }
  }

  #wakeAt({ definition, standing }: Entry): number {
    const [, text, nextMs, dueMs, ranBy] = standing!
    const rule = this.#options.rules.of(text)
    if (nextMs === null || dueMs === null || !rule) return Infinity
    const following = rule.next(new Date(nextMs))?.getTime() ?? Infinity
    const spreadMs = Math.min(definition.spreadMs, (following - nextMs) / 4)
    const isOthers = definition.sticky && ranBy !== null && ranBy !== this.#instance
    const isOurs = definition.sticky && ranBy === this.#instance
    const spread = isOurs ? 0 : isOthers ? (1 + Math.random()) * spreadMs : Math.random() * spreadMs
    return performance.now() + dueMs + spread
  }

  async #sweep(): Promise<void> {
    this.#sweepAt = performance.now() + sweepEveryMs * (0.75 + Math.random() / 2)
    await this.#ledger.run('sweep', [keepDays, keepMost, keepLeast])
  }

  async #withdraw(keys: readonly string[]): Promise<void> {
    await this.#ledger.run('withdraw', [this.#instance, arrayOf(keys)]).catch(() => {})
  }

  get #instance(): string {
    return this.#options.presence.instanceId
  }

  /** For so long, or until there may be something to do. */
  async #rest(ms: number): Promise<void> {
    await this.#nudge.pause(Math.min(Math.max(0, ms), 60_000))
    this.#nudge.heed()
  }
}

function shuffled<T>(all: readonly T[]): T[] {
  return all
    .map((one) => ({ one, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ one }) => one)
}
