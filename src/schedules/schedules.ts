import {
  Calls,
  checkName,
  closeOptionRules,
  DrainingError,
  type Duration,
  defaultTimes,
  type Events,
  flag,
  type MiddlewareStack,
  orAborted,
  readOptions,
  resultWithin,
  type TracerSlot,
  text,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { type RuleOptions, ruleFromOptions, type TickRule } from '../cron/index.js'
import type { TransactionContext } from '../once/index.js'
import { type Database, DatabaseUnreachableError, type HealthReason, type Presence } from '../postgres/index.js'
import { Changes } from './changes.js'
import {
  type Definition,
  define,
  type JobPort,
  type JobScheduleOptions,
  keyOfSchedule,
  readDefinition,
  type ScheduleDefinition,
  type ScheduleOptions,
  type ScheduleRun,
} from './definition.js'
import type { UnknownScheduleError } from './errors.js'
import { nearestTick, untilMoment } from './nearest.js'
import { Rules } from './rules.js'
import { ScheduleLoop } from './schedule-loop.js'
import {
  type PastGap,
  type PastRow,
  type PastRun,
  pastOf,
  type ScheduleRow,
  type ScheduleStatus,
  statusOf,
} from './status.js'
import { ScheduleStore } from './store.js'
import { type StoredScheduleOptions, StoredSchedules, type UpsertOutcome } from './stored.js'
import { StoredTicker } from './stored-ticker.js'

export interface SchedulesOptions {
  readonly database: Database
  readonly presence: Presence
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly attempts: TransactionContext
  readonly jobs: JobPort
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
}

/** Schedule that this instance has added. */
export interface Schedule extends AsyncDisposable {
  readonly name: string
  /** Number of runs of the schedule that are active in this instance. */
  readonly running: number
  /**
   * Resolves when this instance takes part in the schedule: the schedule is in the database, and this instance claims
   * its ticks. Rejects if the next attempt to take part fails. The instance keeps trying, so you can call `ready` again.
   */
  ready(): Promise<void>
  /**
   * Stops claiming ticks in this instance, and resolves when the schedule's runs in this instance have ended. If a run
   * takes longer than `within` (default `30s`), its signal aborts with a `DrainingError`, and another instance runs
   * its tick again.
   */
  close(options?: { within?: Duration | undefined }): Promise<void>
}

export interface ScheduleListOptions {
  /** Text that the names must contain. Case is ignored. */
  search?: string | undefined
  /** Returns only schedules whose names follow this name. Pass the last name of a page to get the next page. */
  after?: string | undefined
  /** Maximum number of schedules, from 1 to 10,000. The default is 1,000. */
  limit?: number | undefined
}

const listRules = { search: text, after: text, limit: wholeNumber(1, 10_000) }

/**
 * Distributed cron. Exactly one of the instances that add a schedule runs each tick.
 *
 * @example
 * holdfast.schedules.add('hourly-report', { cron: '0 * * * *', timezone: 'Europe/London' }, async ({ tick, signal }) => {
 *   await makeReport(tick, { signal })
 * })
 */
export class Schedules {
  readonly #options: SchedulesOptions
  readonly #store: ScheduleStore
  readonly #loop: ScheduleLoop
  readonly #changes: Changes
  readonly #stored: StoredSchedules
  readonly #ticker: StoredTicker
  readonly #definitions = new Map<string, Definition>()
  readonly #draining = new AbortController()
  readonly #calls = new Calls()

  /** @internal */
  constructor(options: SchedulesOptions) {
    this.#options = options
    const { presence, attempts, namespace, events, tracing, middleware, jobs } = options
    const store = new ScheduleStore(options)
    const rules = new Rules()
    this.#store = store
    this.#changes = new Changes({
      store,
      namespace,
      rules,
      closing: this.#calls.closing,
      onChanged: (key) => this.#loop.refresh(key),
    })
    this.#loop = new ScheduleLoop({
      store,
      presence,
      attempts,
      namespace,
      events,
      tracing,
      middleware,
      rules,
      adopt: (key, definition) => this.#changes.make(key, definition.name, { what: 'rule', definition }),
    })
    this.#stored = new StoredSchedules({ store, namespace, jobs })
    this.#ticker = new StoredTicker({ store, presence, namespace, events, rules, jobs })
  }

  /**
   * Adds a schedule to this instance until the schedule or the instance is closed. All instances add the same schedules
   * when they start, and one of them runs each tick. Returns immediately and writes the schedule to the database in the
   * background. Other calls for this schedule in this instance wait until it is written.
   *
   * With `job` and `input` instead of a function, each tick enqueues exactly one job. You can pass a definition made by
   * `defineSchedule` instead of all arguments.
   *
   * @example
   * holdfast.schedules.add('invoices', { every: '15m', overlap: 'queue', timeout: '10m' }, async ({ tick, signal, tx }) => {
   *   await tx.query('insert into invoice_run (tick) values ($1)', [tick])
   * })
   * holdfast.schedules.add('nightly', { cron: '0 3 * * *', job: makeReport, input: (tick) => ({ day: tick }) })
   */
  add(definition: ScheduleDefinition): Schedule
  add<Input>(name: string, options: JobScheduleOptions<Input>): Schedule
  add(name: string, options: ScheduleOptions, work: (run: ScheduleRun) => unknown): Schedule
  add(given: string | ScheduleDefinition, options?: ScheduleOptions, work?: (run: ScheduleRun) => unknown): Schedule {
    this.#calls.throwIfClosed()
    this.#draining.signal.throwIfAborted()
    const { namespace, jobs } = this.#options
    const defined =
      typeof given === 'string'
        ? define('schedules.add', given, options as ScheduleOptions, work)
        : readDefinition(given, options, work)
    const { name } = defined
    const definition: Definition = {
      ...defined,
      key: keyOfSchedule(namespace, name),
      work: (run) => defined.work(run, jobs),
    }
    for (const other of this.#definitions.values()) {
      const taken = [other.name, other.was].find((known) => known === name || (known && known === definition.was))
      if (taken !== undefined) {
        throw new UsageError(
          `This instance already has a schedule named "${taken}"`,
          'Close the existing schedule before you add another schedule with the same name.',
        )
      }
    }
    this.#definitions.set(name, definition)
    this.#loop.add(definition)
    let closing: Promise<void> | undefined
    const close: Schedule['close'] = (given) => {
      const { within = defaultTimes.drainWithinMs } = readOptions('close', given, closeOptionRules)
      closing ??= this.#loop.remove(definition, within).finally(() => {
        if (this.#definitions.get(name) === definition) this.#definitions.delete(name)
      })
      return closing
    }
    const { runs } = this.#loop
    return {
      name,
      ready: () => this.#loop.ready(definition),
      get running() {
        return runs.countOf(definition)
      },
      close,
      [Symbol.asyncDispose]: () => close(),
    }
  }

  /**
   * Creates or changes a schedule that is stored in the database, such as one schedule per customer. Each tick enqueues
   * exactly one job. The instances that run job workers settle the ticks, so no instance needs the schedule in its
   * code. A new rule applies immediately. An unchanged rule keeps its next tick. Returns whether the schedule was
   * created, changed or already the same.
   *
   * @example
   * await holdfast.schedules.upsert('tenant:42:report', { cron: '0 8 * * *', timezone: 'Europe/London', job: sendReport, input: { tenant: 42 } })
   */
  upsert<Input>(name: string, options: StoredScheduleOptions<Input>): Promise<UpsertOutcome> {
    return this.#calls.run(
      'schedules.upsert',
      () => name,
      true,
      async () => {
        this.#keyOf(name)
        return this.#calls.write(() => this.#stored.upsert(name, options))
      },
    )
  }

  /**
   * Removes a stored schedule and its history. It never ticks again. Jobs that it has already enqueued remain. Returns false if there is
   * no stored schedule with this name.
   *
   * @example
   * await holdfast.schedules.remove('tenant:42:report')
   */
  remove(name: string): Promise<boolean> {
    return this.#calls.run(
      'schedules.remove',
      () => name,
      true,
      async () => {
        this.#keyOf(name)
        return this.#calls.write(() => this.#stored.remove(name))
      },
    )
  }

  /**
   * Pauses a schedule until it is resumed. No tick starts during the pause, even after a deployment. Runs that have
   * already started continue.
   *
   * @example
   * await holdfast.schedules.pause('invoices')
   */
  async pause(name: string): Promise<void> {
    await this.#change('schedules.pause', name, async (key) => {
      const rows = await this.#store.run('pause', [key])
      if (rows.length === 0) throw await this.#unknown(name)
    })
  }

  /**
   * Resumes a paused schedule. Ticks that were due during the pause are recorded as gaps.
   *
   * @example
   * await holdfast.schedules.resume('invoices')
   */
  async resume(name: string): Promise<void> {
    await this.#change('schedules.resume', name, (key) => this.#changes.make(key, name, { what: 'resume' }))
  }

  /**
   * Overrides the rule in the code. The override also applies after deployments. Null removes the override, so the rule
   * in the code applies again.
   *
   * @example
   * await holdfast.schedules.override('invoices', { every: '1h' })
   */
  async override(name: string, rule: RuleOptions | null): Promise<void> {
    const text = rule === null ? null : ruleFromOptions('schedules.override', rule).text
    const change = { what: 'override', rule: text } as const
    await this.#change('schedules.override', name, (key) => this.#changes.make(key, name, change))
  }

  /**
   * Requests an immediate run, independently of the rule and even if the schedule is paused. Returns the run's tick, or
   * null if a run exists and `overlap` does not allow a second one.
   *
   * @example
   * const tick = await holdfast.schedules.run('invoices')
   */
  async run(name: string): Promise<Date | null> {
    return this.#change('schedules.run', name, async (key) => {
      const [row] = await this.#store.run<{ at: number | null }>('run', [key])
      if (row!.at !== null) {
        this.#loop.pollSoon()
        return new Date(row!.at)
      }
      if ((await this.#store.find(key, this.#options.namespace)).length === 0) throw await this.#unknown(name)
      return null
    })
  }

  /**
   * Returns a schedule's status, or null if no instance has ever added the schedule.
   *
   * @example
   * const status = await holdfast.schedules.find('invoices')
   */
  async find(name: string): Promise<ScheduleStatus | null> {
    const key = this.#keyOf(name)
    await this.#declared(name)
    const [row] = await this.#store.find(key, this.#options.namespace)
    return row ? statusOf(row) : null
  }

  /**
   * Returns the schedules in the namespace, sorted by name: at most `limit` schedules (default 1,000) whose names contain `search` and
   * follow the name `after`.
   *
   * @example
   * for (const { name, nextAt } of await holdfast.schedules.list({ search: 'tenant:42:' })) console.log(name, nextAt)
   */
  async list(options?: ScheduleListOptions): Promise<ScheduleStatus[]> {
    this.#calls.throwIfClosed()
    const { search, after, limit = 1_000 } = readOptions('schedules.list', options, listRules)
    await Promise.all([...this.#definitions.keys()].map((name) => this.#declared(name)))
    const { namespace } = this.#options
    const values = [null, namespace, search ?? null, after ?? null, limit]
    return (await this.#store.read<ScheduleRow>('find', values)).map(statusOf)
  }

  /**
   * Returns a schedule's runs and gaps, latest first. A gap represents consecutive ticks without a run, and contains
   * the reason.
   *
   * @example
   * const [latest] = await holdfast.schedules.runs('invoices', { limit: 1 })
   */
  async runs(
    name: string,
    options?: { limit?: number | undefined; skipped?: boolean | undefined },
  ): Promise<(PastRun | PastGap)[]> {
    const rules = { limit: wholeNumber(1, 10_000), skipped: flag }
    const { limit = 100, skipped = false } = readOptions('schedules.runs', options, rules)
    return (await this.#store.read<PastRow>('runs', [this.#keyOf(name), limit, skipped])).map(pastOf)
  }

  /**
   * @internal Waits for the tick that is nearest to the database's current time, and returns this tick. Returns null if
   * the rule has no tick yet. Intended for callers such as crontab, whose own clock may be fast or slow.
   */
  async untilNearest(rule: TickRule, signal?: AbortSignal): Promise<Date | null> {
    const now = async () => (await this.#store.run<{ now: number }>('now', []))[0]!.now
    const tick = nearestTick(rule, await now())
    if (tick !== null) await untilMoment(tick, now, signal)
    return tick
  }

  /** @internal */
  onNotification(what: string, detail: string): void {
    if (what === 'schedule-changed') this.#loop.refresh(detail)
    else if (what === 'schedule-stored') this.#ticker.onChanged(detail)
    else if (what === 'schedule-run-requested') this.#loop.pollSoon()
    else if (what === 'schedule-stop-requested' && detail === String(this.#options.presence.epoch?.number)) {
      this.#loop.pollSoon()
    }
  }

  /** @internal Starts to settle the ticks of stored schedules, because this instance now has a job worker. */
  onWorker(): void {
    this.#ticker.start()
  }

  /** @internal Reasons why this instance's schedules are not ticking. */
  troubles(): HealthReason[] {
    const troubles = [this.#loop.trouble, this.#ticker.trouble]
    return troubles.filter((trouble) => trouble !== undefined)
  }

  /** @internal Closes all schedules in this instance. */
  async drain(withinMs: number): Promise<void> {
    this.#draining.abort(new DrainingError('instance'))
    this.#ticker.drain()
    const definitions = [...this.#definitions.values()]
    await Promise.all(definitions.map((definition) => this.#loop.remove(definition, withinMs)))
  }

  /** @internal Resolves when all earlier calls' writes have been recorded. */
  waitForWrites(): Promise<void> {
    return this.#calls.waitForWrites()
  }

  /** @internal */
  async close(): Promise<void> {
    this.#calls.close()
    await this.#ticker.close()
    await this.#loop.close(defaultTimes.drainWithinMs)
  }

  #keyOf(name: string): string {
    this.#calls.throwIfClosed()
    return keyOfSchedule(this.#options.namespace, checkName(name, 'the name of the schedule'))
  }

  /** Changes a schedule. Waits for its declaration first, because `add` returns before the schedule is declared. */
  #change<T>(call: string, name: string, change: (key: string) => Promise<T>): Promise<T> {
    const changed = async () => {
      const key = this.#keyOf(name)
      await this.#declared(name)
      return this.#calls.write(() => change(key))
    }
    return this.#calls.run(call, () => name, true, changed)
  }

  async #declared(name: string): Promise<void> {
    const declared = this.#loop.declared(name).then(() => true)
    if (await orAborted(this.#calls.closing, resultWithin(this.#options.expiryMs, declared))) return
    throw new DatabaseUnreachableError(
      `The schedule "${name}" was added in this process, but could not be written to the database yet`,
    )
  }

  #unknown(name: string): Promise<UnknownScheduleError> {
    return this.#store.unknown(name, this.#options.namespace)
  }
}
