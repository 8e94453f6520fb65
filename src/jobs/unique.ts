import {
  Batcher,
  backoffMs,
  checkName,
  type Duration,
  describe,
  duration,
  HoldfastError,
  oneOf,
  pause,
  readOptions,
  UsageError,
} from '../base/index.js'
import { type Executor, sqlstate, sqlstateOf } from '../postgres/index.js'
import { valuesOf } from './enqueuing.js'
import type { JobRef } from './job-ref.js'
import type { JobStore } from './store.js'

/** Options for a unique key. At most one job with the same queue and kind has a given key. */
export interface UniqueOptions<Key = string> {
  /** Idempotency key, for example `invoice:42`. For `enqueueMany`, a function that returns the key for an input. */
  key: Key
  /**
   * Time when the key becomes free. `started`: when a worker has claimed the job. `ended`: when the job has ended (the
   * default).
   */
  until?: 'started' | 'ended' | undefined
  /**
   * Time for which the key stays reserved, even if the job ends earlier. A cancellation frees the key. Use either `for`
   * or `until`.
   */
  for?: Duration | undefined
  /**
   * Behavior if another job has the key. `keep` returns the existing job unchanged (the default). `replace` gives the
   * existing job the new input, meta, priority and, if given, delay. `debounce` does the same as `replace` and requires a
   * delay. A running job is never changed.
   */
  existing?: 'keep' | 'replace' | 'debounce' | undefined
}

const maxDurationMs = 3_650 * 86_400_000
const rules = {
  key: { expected: 'a key', read: (given: unknown) => given },
  until: oneOf('started', 'ended'),
  for: duration(1, maxDurationMs),
  existing: oneOf('keep', 'replace', 'debounce'),
}

/** Rule that validates the `unique` option, which is a key, a function that returns keys, or an object. */
export const uniqueRule = {
  expected: 'a key, or an object that contains a key',
  read: (given: unknown) => (['string', 'function', 'object'].includes(typeof given) ? given : undefined),
}

interface NewUniqueJob {
  /** Complete JSON object with the job's options. */
  readonly head: string
  readonly payload: string
  /** Meta as JSON. Undefined if the job has none. */
  readonly meta?: string | undefined
  /** Queue, kind and key. */
  readonly slot: string
}

/**
 * Validates the `unique` option. Returns a function that maps an input to its key and to the option as JSON. With
 * `many`, the key must be a function, because a constant key would be the same for all jobs.
 */
export function readUnique(
  given: unknown,
  isDelayed: boolean,
  many: boolean,
): (input: unknown) => { key: string; json: string } {
  const options = typeof given === 'object' ? given : { key: given }
  const { key, until, for: window, existing = 'keep' } = readOptions('unique', options, rules)
  if (until !== undefined && window !== undefined) {
    throw new UsageError(
      'Expected either `until` or `for`, got both',
      '`until` frees the key when the job starts or ends. `for` frees the key after a fixed time.',
    )
  }
  if (existing === 'debounce' && !isDelayed) {
    throw new UsageError(
      'Expected a delay in combination with existing: "debounce"',
      'Set a delay, for example { delay: "5s" }. Each further call with the same key restarts the delay.',
    )
  }
  if (many !== (typeof key === 'function')) {
    const wanted = many ? 'a function that returns the key for an input' : 'a string'
    throw new UsageError(`Expected unique.key to be ${wanted}, got ${describe(key)}`)
  }
  const kept = {
    until: window === undefined ? (until ?? 'ended') : 'window',
    for_ms: window && Math.ceil(window),
    existing,
  }
  return (input) => {
    const checked = checkName(typeof key === 'function' ? key(input) : key, 'unique.key')
    return { key: checked, json: JSON.stringify({ key: checked, ...kept }) }
  }
}

/**
 * Thrown if a job cannot be enqueued because another transaction with the same unique key has been open for too long.
 */
export class UniqueKeyBusyError extends HoldfastError {
  constructor(seconds: number) {
    super(`Another transaction has been holding the same unique key for more than ${seconds} s`, {
      code: 'UNIQUE_KEY_BUSY',
      retryable: true,
      hint: 'Retry after the other transaction has ended. Keep transactions short, and enqueue jobs shortly before the commit.',
    })
  }
}

/** Maximum time for which a statement waits for another transaction. The call holds no connection between retries. */
const patienceMs = 100
const maxBusyMs = 30_000

/**
 * Enqueues unique jobs. An open transaction that has written a key blocks all other writers of this key. Calls in the
 * same turn of the event loop first share a statement. If the shared statement is blocked, each call retries with its
 * own statement. Calls with the same key wait for each other.
 */
export class UniqueEnqueuing {
  readonly #store: JobStore
  readonly #batcher: Batcher<NewUniqueJob, JobRef | undefined>
  readonly #queues = new Map<string, Promise<unknown>>()

  constructor(store: JobStore) {
    this.#store = store
    this.#batcher = new Batcher(async (asked) => (await this.#try(asked)) ?? asked.map(() => undefined))
  }

  async one(asked: NewUniqueJob): Promise<JobRef> {
    const until = performance.now() + maxBusyMs
    const ref = this.#queues.has(asked.slot) ? undefined : await this.#batcher.add(asked)
    return ref ?? this.#serialize(asked, until)
  }

  /**
   * Enqueues jobs in one statement. In the caller's transaction, the statement waits for locks like any other
   * statement.
   */
  async many(asked: readonly NewUniqueJob[], tx: Executor | undefined): Promise<JobRef[]> {
    if (tx === undefined) return this.#patiently(asked, performance.now() + maxBusyMs)
    return refsOf(await this.#store.runIn<UniqueRow>(tx, 'enqueue', valuesFor(asked, false, null)))
  }

  async #serialize(asked: NewUniqueJob, until: number): Promise<JobRef> {
    const { slot } = asked
    const before = this.#queues.get(slot)
    const turn = Promise.resolve(before?.catch(() => {})).then(() => this.#patiently([asked], until))
    this.#queues.set(slot, turn)
    try {
      return (await turn)[0]!
    } finally {
      if (this.#queues.get(slot) === turn) this.#queues.delete(slot)
    }
  }

  async #patiently(asked: readonly NewUniqueJob[], until: number): Promise<JobRef[]> {
    for (let attempt = 0; ; attempt++) {
      const refs = await this.#try(asked)
      if (refs) return refs
      if (performance.now() >= until) throw new UniqueKeyBusyError(maxBusyMs / 1_000)
      await pause(backoffMs(attempt, 20, 500))
    }
  }

  /** Runs the statement. Returns undefined if an open transaction blocks the statement. */
  async #try(asked: readonly NewUniqueJob[]): Promise<JobRef[] | undefined> {
    try {
      return refsOf(await this.#store.run<UniqueRow>('enqueue', valuesFor(asked, true, `${patienceMs}ms`)))
    } catch (error) {
      if (sqlstateOf(error) === sqlstate.lockNotAvailable) return undefined
      throw error
    }
  }
}

interface UniqueRow {
  readonly ids: string
  readonly fresh: string
}

function valuesFor(asked: readonly NewUniqueJob[], isAlone: boolean, patience: string | null): unknown[] {
  const heads = asked.map(({ head }) => head)
  const payloads = asked.map(({ payload }) => payload)
  const metas = asked.map(({ meta }) => meta)
  return valuesOf(heads, payloads, metas, isAlone, { patience })
}

function refsOf([row]: readonly UniqueRow[]): JobRef[] {
  const areNew = row!.fresh.split(',')
  return row!.ids.split(',').map((id, at) => ({ id: Number(id), isNew: areNew[at] === 't' }))
}
