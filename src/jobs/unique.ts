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
import type { JobRef } from './job-ref.js'
import type { JobStore } from './store.js'

/** At most one job of its queue and kind has the key. */
export interface UniqueOptions<Key = string> {
  /** For example `invoice:42`. For `enqueueMany` a function that gives the key of an input. */
  key: Key
  /** For how long the job has the key: until a worker has claimed it, or until it has ended. Default `ended`. */
  until?: 'started' | 'ended' | undefined
  /** In the place of `until`: for so long from now, whatever becomes of the job, unless it is cancelled. */
  for?: Duration | undefined
  /**
   * When another job has the key: `keep` answers with that one. `replace` gives it the new input and priority, and the new
   * delay, if there is one. `debounce` does the same, and needs a delay. A job that runs is always kept. Default `keep`.
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

/** What is given as `unique`: a key (or what gives one), or options with it. */
export const uniqueRule = {
  expected: 'a key, or an object with one',
  read: (given: unknown) => (['string', 'function', 'object'].includes(typeof given) ? given : undefined),
}

/** A job that wants a key. */
interface NewUniqueJob {
  /** A whole JSON object. */
  readonly head: string
  readonly payload: string
  /** The key with what it is unique in. */
  readonly slot: string
}

/**
 * Reads what was given as `unique`; answers how the head of a job goes on with the key of its input. `many`: the key is
 * given by a function, because it would be the same for all.
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
      'Expected until or for, got both',
      '`until` holds the key as long as the job waits or runs; `for` holds it for a time, whatever becomes of the job.',
    )
  }
  if (existing === 'debounce' && !isDelayed) {
    throw new UsageError(
      'Expected a delay with existing: "debounce"',
      'Each further enqueue puts the job off by it, for example { delay: "5s" }.',
    )
  }
  if (many !== (typeof key === 'function')) {
    const wanted = many ? 'a function that gives the key of an input' : 'a string'
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

/** A unique job could not be enqueued: for long, somebody else has been about to enqueue the same. */
export class UniqueKeyBusyError extends HoldfastError {
  constructor(seconds: number) {
    super(`An open transaction has been enqueueing a job with the same unique key for more than ${seconds} s`, {
      code: 'UNIQUE_KEY_BUSY',
      retryable: true,
      hint: 'Whether the key is free is known when that transaction ends. Enqueue late in transactions, and keep them short.',
    })
  }
}

/** For so long a statement may wait for somebody's transaction; then it is asked again, and has no connection meanwhile. */
const patienceMs = 100
const maxBusyMs = 30_000

/**
 * Enqueues unique jobs. An open transaction that has written a key keeps everybody waiting who wants it. So those of one
 * turn go out together, but not for long: then each waits for itself, those of one key in a line.
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

  /** In one statement; in a transaction of the caller it waits as any statement of theirs does. */
  async many(asked: readonly NewUniqueJob[], tx: Executor | undefined): Promise<JobRef[]> {
    if (tx === undefined) return this.#patiently(asked, performance.now() + maxBusyMs)
    return refsOf(await this.#store.runIn<UniqueRow>(tx, 'enqueue_unique', [...valuesOf(asked), false, null]))
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

  /** Undefined when somebody's open transaction stands in the way. */
  async #try(asked: readonly NewUniqueJob[]): Promise<JobRef[] | undefined> {
    try {
      return refsOf(await this.#store.run<UniqueRow>('enqueue_unique', [...valuesOf(asked), true, `${patienceMs}ms`]))
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

function valuesOf(asked: readonly NewUniqueJob[]): unknown[] {
  return [`[${asked.map(({ head }) => head).join(',')}]`, `[${asked.map(({ payload }) => payload).join(',')}]`]
}

function refsOf([row]: readonly UniqueRow[]): JobRef[] {
  const areNew = row!.fresh.split(',')
  return row!.ids.split(',').map((id, at) => ({ id: Number(id), isNew: areNew[at] === 't' }))
}
