import {
  callback,
  checkName,
  type Duration,
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
import type { Transaction } from '../once/index.js'

/** What the handler of a schedule is given. */
export interface ScheduleRun {
  /** The name of the schedule. */
  readonly name: string
  /** The moment that the rule names; of an extra run, when it was asked for. */
  readonly tick: Date
  /** How many ms after its tick the run began. */
  readonly lateMs: number
  /** Whether it was asked for beside the rule (`schedules.run`). */
  readonly extra: boolean
  /** Counts from 1: how often the tick was started, as instances died or closed while they ran it. */
  readonly attempt: number
  /** Larger than that of every earlier run of the schedule. */
  readonly fence: number
  /** The last tick of the rule whose run was done. */
  readonly lastSuccess: Date | undefined
  /** Aborts when the work should stop: `RunLostError`, `RunTimeoutError`, `RunReplacedError` or `RunDrainingError`. */
  readonly signal: AbortSignal
  /** Writes that commit together with the end of the run, exactly once. The transaction begins with the first query. */
  readonly tx: Transaction
  /** Adds a line to the log of the run. The last hundred are kept. */
  log(line: string): void
}

export interface ScheduleOptions extends RuleOptions {
  /**
   * What becomes of a tick while the run of an earlier one is there: `skip` it (the default), `queue` it (one waits), `allow`
   * it to run beside, or `replace` the earlier run, whose signal aborts.
   */
  overlap?: 'skip' | 'queue' | 'allow' | 'replace' | undefined
  /**
   * What becomes of ticks that nobody took before the next one was due, or within a minute: `skip` them (the default), run
   * the `latest`, or up to so many, the oldest first.
   */
  missed?: 'skip' | 'latest' | { all: number } | undefined
  /** What becomes of a tick whose instance dies while it runs: another runs it again (the default), or it is recorded. */
  crashed?: 'rerun' | 'record' | undefined
  /** How long a run may take. Default: as long as it wants. */
  timeout?: Duration | undefined
  /**
   * The instances wait a random part of this time before they take a tick, so that they do not come all at once. Default
   * `40ms`; never more than a quarter of the time to the next tick.
   */
  spread?: Duration | undefined
  /** The instance that ran last goes first: for work that gains from what it has in memory. Default false. */
  sticky?: boolean | undefined
  /** Its former name, when it was renamed. */
  was?: string | undefined
}

/** A definition of a job, as `defineJob` makes it: as much as must be known of it here. */
export interface ScheduledJob<Input> {
  readonly kind: string
  readonly schema: { readonly '~standard': { readonly types?: { readonly input: Input } | undefined } } | undefined
}

export interface JobScheduleOptions<Input> extends ScheduleOptions {
  /** Each tick enqueues one job of this kind, exactly one. */
  job: ScheduledJob<Input>
  /** The input of the job of a tick. */
  input: (tick: Date) => NoInfer<Input>
}

/** How a job is enqueued, by whoever knows about jobs. */
export interface JobPort {
  enqueue(job: ScheduledJob<unknown>, input: unknown, tx: Transaction): Promise<unknown>
}

/** A schedule, made by `defineSchedule`: its name, when it ticks, what becomes of its ticks, and what it does. */
export interface ScheduleDefinition {
  readonly name: string
  readonly was: string | undefined
  readonly rule: TickRule
  readonly overlap: 'skip' | 'queue' | 'allow' | 'replace'
  readonly missed: 'skip' | 'latest' | 'all'
  /** For `all`: how many missed ticks run, at most. */
  readonly maxLate: number
  readonly reruns: boolean
  readonly timeoutMs: number | undefined
  readonly spreadMs: number
  readonly sticky: boolean
  readonly work: (run: ScheduleRun, jobs: JobPort) => unknown
}

/** A schedule as the code of this instance has it. */
export interface Definition extends Omit<ScheduleDefinition, 'work'> {
  /** The key of the name, in decimal. */
  readonly key: string
  readonly work: (run: ScheduleRun) => unknown
}

const missedRule: OptionRule<'skip' | 'latest' | number> = {
  expected: '"skip", "latest" or { all: a whole number between 1 and 1000 }',
  read(given) {
    if (given === 'skip' || given === 'latest') return given
    const { all, ...others } = (given ?? {}) as { all?: unknown }
    return Object.keys(others).length === 0 ? wholeNumber(1, 1_000).read(all) : undefined
  },
}
const rules = {
  overlap: oneOf('skip', 'queue', 'allow', 'replace'),
  missed: missedRule,
  crashed: oneOf('rerun', 'record'),
  timeout: duration(1, maxTimerMs),
  spread: duration(0, 30_000),
  sticky: flag,
  was: { expected: 'a name', read: (given: unknown) => checkName(given, 'was') },
  job: objectWith<ScheduledJob<unknown>>('a definition made by defineJob', 'kind', 'schema'),
  input: callback<(tick: Date) => unknown>('a function that makes the input of the job of a tick'),
  // Read by ruleFromOptions, which says more about them.
  cron: { expected: 'a cron rule', read: (given: unknown) => given },
  every: { expected: 'an interval', read: (given: unknown) => given },
  at: { expected: 'a moment', read: (given: unknown) => given },
  timezone: { expected: 'a time zone', read: (given: unknown) => given },
}

const definition = objectWith<ScheduleDefinition>(
  'a definition made by defineSchedule',
  'name',
  'rule',
  'spreadMs',
  'work',
)

/**
 * Defines a schedule, to be added to an instance by `schedules.add`, or exported for `holdfast work`.
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

/** What `where` was given, checked. */
export function define(where: string, name: string, given: ScheduleOptions, work: unknown): ScheduleDefinition {
  checkName(name, 'the name of the schedule')
  const read = readOptions(where, given, rules)
  const { overlap = 'skip', missed = 'skip', crashed = 'rerun', timeout, spread = 40, sticky = false, was } = read
  const { cron, every, at, timezone } = given ?? {}
  const rule = ruleFromOptions(where, { cron, every, at, timezone })
  if (was === name) throw new UsageError(`Expected was to be another name than "${name}" itself`)
  if (overlap === 'replace' && typeof missed === 'number') {
    throw new UsageError(
      "Expected overlap other than 'replace' where several missed ticks are to run",
      'Each would replace the one before it: use missed: "latest".',
    )
  }
  return Object.freeze({
    name,
    was,
    rule,
    overlap,
    missed: typeof missed === 'number' ? 'all' : missed,
    maxLate: typeof missed === 'number' ? missed : 0,
    reruns: crashed === 'rerun',
    timeoutMs: timeout,
    spreadMs: spread,
    sticky,
    work: workOf(where, work, read.job, read.input),
  })
}

/** What `schedules.add` was given in the place of a name. */
export function readDefinition(given: unknown, ...others: unknown[]): ScheduleDefinition {
  const read = definition.read(given)
  if (read === undefined) {
    throw new UsageError(
      `Expected schedules.add to be given a name, or ${definition.expected}, got ${describe(given)}`,
      "Such as: schedules.add('invoices', { every: '15m' }, async ({ tick }) => { … })",
    )
  }
  if (others.every((other) => other === undefined)) return read
  throw new UsageError('Expected a definition alone, got more beside it', 'Give its options to defineSchedule.')
}

function workOf(
  where: string,
  work: unknown,
  job: ScheduledJob<unknown> | undefined,
  input: ((tick: Date) => unknown) | undefined,
): ScheduleDefinition['work'] {
  if (job === undefined && input === undefined) {
    if (typeof work === 'function') return work as ScheduleDefinition['work']
    throw new UsageError(
      `Expected the last argument of ${where} to be a function, got ${describe(work)}`,
      'Or give a job, and its input, among the options.',
    )
  }
  if (job === undefined || input === undefined) throw new UsageError('Expected job and input together, got one of them')
  if (work !== undefined) throw new UsageError('Expected a job or a function, got both')
  return ({ tick, tx }, jobs) => jobs.enqueue(job, input(tick), tx)
}

/** The key by which the database knows the name of a schedule. */
export function keyOfSchedule(namespace: string, name: string): string {
  return hashedKey(namespace, `schedule/${name}`).key
}
