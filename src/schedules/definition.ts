import {
  callback,
  checkName,
  type Duration,
  defaultTimes,
  describe,
  duration,
  flag,
  hashedKey,
  maxTimerMs,
  type OptionRule,
  objectWith,
  oneOf,
  readOptions,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { type RuleOptions, ruleFromOptions, type TickRule } from '../cron/index.js'
import type { CallerTransaction, HandlerTransaction } from '../postgres/index.js'

/** Argument of a schedule's handler. */
export interface ScheduleRun {
  /** Name of the schedule. */
  readonly name: string
  /** Scheduled time of the run. If the run was requested with `schedules.run`, the time of the request. */
  readonly tick: Date
  /** Delay between the tick and the start of the run, in ms. */
  readonly lateMs: number
  /** Whether the run was requested with `schedules.run`, independently of the rule. */
  readonly extra: boolean
  /** This tick's attempt number, starting at 1. The number increases if an instance dies or closes during the run. */
  readonly attempt: number
  /** Fencing token, larger than the tokens of all the schedule's earlier runs. */
  readonly fence: number
  /** Last scheduled tick whose run succeeded. Undefined if no run has succeeded yet. */
  readonly lastSuccess: Date | undefined
  /**
   * Aborts when the run should stop. The reason is a `RunLostError`, `RunTimeoutError`, `RunReplacedError` or
   * `DrainingError`.
   */
  readonly signal: AbortSignal
  /**
   * Transaction that commits exactly once, together with the run's result. The first query begins the transaction.
   * With the `transaction` option of `Holdfast.open`, a promise of your library's transaction, which begins when `tx` is
   * read.
   */
  readonly tx: HandlerTransaction
  /**
   * Adds a line to the run's log, with optional data. Returns immediately and never throws. Holdfast writes the lines in batches, and keeps
   * the last 100 lines of a run. A crash loses the lines of the last few hundred milliseconds.
   */
  log(text: string, data?: unknown): void
}

export interface ScheduleOptions extends RuleOptions {
  /**
   * Handling of a tick that is due while an earlier run exists: `skip` the tick (the default), `queue` it (at most one
   * waits), `allow` it to run at the same time, or `replace` the earlier run, whose signal aborts.
   */
  overlap?: 'skip' | 'queue' | 'allow' | 'replace' | undefined
  /**
   * Handling of ticks that no instance started before the next tick or within a minute: `skip` them (the default), run
   * the `latest` tick, or run up to N of them (`{ all: N }`), oldest first.
   */
  missed?: 'skip' | 'latest' | { all: number } | undefined
  /**
   * Handling of a tick whose instance dies during the run. `rerun`: another instance runs the tick again (the default).
   * `record`: the crash is recorded, and the tick does not run again.
   */
  crashed?: 'rerun' | 'record' | undefined
  /** Maximum duration of a run. By default, there is no limit. */
  timeout?: Duration | undefined
  /**
   * Maximum random delay before an instance claims a tick. The delay prevents all instances from claiming at the same
   * time. The default is `40ms`. The delay never exceeds a quarter of the interval between two ticks.
   */
  spread?: Duration | undefined
  /**
   * Prefers the instance that ran the last tick. This option is useful for work that benefits from in-memory caches.
   * The default is false.
   */
  sticky?: boolean | undefined
  /** Former name of a renamed schedule. */
  was?: string | undefined
}

/** A job definition's (`defineJob`) properties that schedules use. */
export interface ScheduledJob<Input> {
  readonly kind: string
  readonly queue: string
  /** Type of the input. This property does not exist at run time. */
  readonly '~types'?: { readonly input: (input: Input) => void } | undefined
}

export interface JobScheduleOptions<Input> extends ScheduleOptions {
  /** Job that each tick enqueues exactly once. */
  job: ScheduledJob<Input>
  /** Returns the input for a tick's job. */
  input: (tick: Date) => NoInfer<Input>
}

/** Enqueues jobs. Another module implements this interface. */
export interface JobPort {
  enqueue(job: ScheduledJob<never>, input: unknown, tx: CallerTransaction): Promise<{ readonly id: number }>
  /** Validates an input, and returns the JSON texts from which `schedule_enqueue` makes jobs. */
  prepare(job: ScheduledJob<never>, input: unknown, priority: number): Promise<{ head: string; input: string }>
  /** Whether this instance has a worker. */
  readonly hasWorker: boolean
}

/** Definition of a schedule, made by `defineSchedule`. */
export interface ScheduleDefinition {
  readonly name: string
  readonly was: string | undefined
  readonly rule: TickRule
  readonly overlap: 'skip' | 'queue' | 'allow' | 'replace'
  readonly missed: 'skip' | 'latest' | 'all'
  /** Maximum number of missed ticks to catch up. Applies only if `missed` is `all`. */
  readonly catchUp: number
  readonly reruns: boolean
  readonly timeoutMs: number | undefined
  readonly spreadMs: number
  readonly sticky: boolean
  /** Job that each tick enqueues. Undefined if the schedule has a function. */
  readonly job: { readonly queue: string; readonly kind: string } | undefined
  /** @internal Runs the handler. With `job`, enqueues and returns the job. */
  readonly work: (run: ScheduleRun, jobs: JobPort) => unknown
}

/** Schedule that this instance has added. */
export interface Definition extends Omit<ScheduleDefinition, 'work'> {
  /** Key of the schedule's name, as a decimal string. */
  readonly key: string
  readonly work: (run: ScheduleRun) => unknown
}

export const missedRule: OptionRule<'skip' | 'latest' | number> = {
  expected: '"skip", "latest", or { all: N } where N is a whole number between 1 and 1000',
  read(given) {
    if (given === 'skip' || given === 'latest') return given
    const { all, ...others } = (given ?? {}) as { all?: unknown }
    return Object.keys(others).length === 0 ? wholeNumber(1, 1_000).read(all) : undefined
  },
}
export const scheduledJob = objectWith<ScheduledJob<never>>('a definition made by defineJob', 'kind', 'queue')
/** `ruleFromOptions` validates these options. */
export const tickRules = {
  cron: { expected: 'a cron rule', read: (given: unknown) => given },
  every: { expected: 'an interval', read: (given: unknown) => given },
  at: { expected: 'a moment', read: (given: unknown) => given },
  timezone: { expected: 'a time zone', read: (given: unknown) => given },
}
const rules = {
  overlap: oneOf('skip', 'queue', 'allow', 'replace'),
  missed: missedRule,
  crashed: oneOf('rerun', 'record'),
  timeout: duration(1, maxTimerMs),
  spread: duration(0, 30_000),
  sticky: flag,
  was: { expected: 'a name', read: (given: unknown) => checkName(given, 'was') },
  job: scheduledJob,
  input: callback<(tick: Date) => unknown>('a function that returns the job input for a tick'),
  ...tickRules,
}

const definition = objectWith<ScheduleDefinition>(
  'a definition made by defineSchedule',
  'name',
  'rule',
  'spreadMs',
  'work',
)

/**
 * Defines a schedule for `schedules.add`, or for export to `holdfast work`.
 *
 * @example
 * export const invoices = defineSchedule('invoices', { every: '15m', timeout: '10m' }, async ({ tick, tx }) => {
 *   await tx.query('insert into invoice_run (tick) values ($1)', [tick])
 * })
 * export const nightly = defineSchedule('nightly', { cron: '0 3 * * *', job: makeReport, input: (tick) => ({ day: tick }) })
 */
export function defineSchedule<Input>(name: string, options: JobScheduleOptions<Input>): ScheduleDefinition
export function defineSchedule(
  name: string,
  options: ScheduleOptions,
  work: (run: ScheduleRun) => unknown,
): ScheduleDefinition
/** @internal */
export function defineSchedule(
  name: string,
  options: ScheduleOptions,
  work?: (run: ScheduleRun) => unknown,
): ScheduleDefinition {
  return define('defineSchedule', name, options, work)
}

/** Checks the arguments to the call named `where`, and returns the definition. */
export function define(where: string, name: string, given: ScheduleOptions, work: unknown): ScheduleDefinition {
  checkName(name, 'the name of the schedule')
  const read = readOptions(where, given, rules)
  const {
    overlap = 'skip',
    missed = 'skip',
    crashed = 'rerun',
    timeout,
    spread = defaultTimes.scheduleSpreadMs,
    sticky = false,
    was,
  } = read
  const { cron, every, at, timezone } = given ?? {}
  const rule = ruleFromOptions(where, { cron, every, at, timezone })
  if (was === name)
    throw new UsageError(`Expected the \`was\` option to be different from the schedule's own name "${name}"`)
  if (overlap === 'replace' && typeof missed === 'number') {
    throw new UsageError(
      "Expected an overlap other than 'replace' in combination with missed: { all: N }",
      'Each caught-up run would replace the previous one. Use missed: "latest".',
    )
  }
  return Object.freeze({
    name,
    was,
    rule,
    overlap,
    missed: typeof missed === 'number' ? 'all' : missed,
    catchUp: typeof missed === 'number' ? missed : 0,
    reruns: crashed === 'rerun',
    timeoutMs: timeout,
    spreadMs: spread,
    sticky,
    job: read.job && { queue: read.job.queue, kind: read.job.kind },
    work: workOf(where, work, read.job, read.input),
  })
}

/** Checks a definition that the caller passed to `schedules.add` instead of a name. */
export function readDefinition(given: unknown, ...others: unknown[]): ScheduleDefinition {
  const read = definition.read(given)
  if (read === undefined) {
    throw new UsageError(
      `Expected the first argument of schedules.add to be a name or ${definition.expected}, got ${describe(given)}`,
      "Example: schedules.add('invoices', { every: '15m' }, async ({ tick }) => { … })",
    )
  }
  if (others.every((other) => other === undefined)) return read
  throw new UsageError(
    'Expected no further arguments after the schedule definition',
    'Pass the options to defineSchedule instead.',
  )
}

function workOf(
  where: string,
  work: unknown,
  job: ScheduledJob<never> | undefined,
  input: ((tick: Date) => unknown) | undefined,
): ScheduleDefinition['work'] {
  if (job === undefined && input === undefined) {
    if (typeof work === 'function') return work as ScheduleDefinition['work']
    throw new UsageError(
      `Expected the last argument of ${where} to be a function, got ${describe(work)}`,
      'Pass a function, or the options job and input.',
    )
  }
  if (job === undefined || input === undefined)
    throw new UsageError('Expected both options, job and input, but got only one')
  if (work !== undefined) throw new UsageError('Expected either the option job or a function, got both')
  return async ({ tick, tx }, jobs) => jobs.enqueue(job, input(tick), await tx)
}

/** Returns the key by which the database identifies a schedule name. */
export function keyOfSchedule(namespace: string, name: string): string {
  return hashedKey(namespace, `schedule/${name}`).key
}
