// Lists jobs and queues, and changes all jobs that a search finds. Uses the search language and the statements of the dashboard and of the
// command line.
import {
  describe,
  type JobState,
  jobStates,
  listOf,
  readOptions,
  text,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import type { ObservedJob, ObservedQueue, Observer, QueueRates } from '../observe/index.js'
import type { Reader } from '../postgres/index.js'
import { type JobSearch, type JobWait, readJobSearch, searchStateOf } from '../search/index.js'
import type { JobStoreOptions } from './store.js'

/** Selects jobs. A job must match all given options. */
export interface JobFilter {
  /** Name of the queue. */
  queue?: string | undefined
  /** Name of the job definition. */
  kind?: string | undefined
  /** State of the job, or several states. */
  state?: JobState | readonly JobState[] | undefined
  /** Search in the language of the dashboard and of `holdfast job ls --search`, such as `input.user:42 since:1h`. */
  search?: string | undefined
}

export interface ListJobsOptions extends JobFilter {
  /** Maximum number of jobs. The default is 50. */
  limit?: number | undefined
  /** `next` of the previous page. */
  after?: string | undefined
}

/** A page of a list of jobs. */
export interface JobList {
  readonly jobs: readonly ObservedJob[]
  /** Position after which the next page starts. Null if the list is complete. */
  readonly next: string | null
}

/** A queue, the number of its jobs in each state, and its rates in the last minute. */
export interface QueueStatus extends ObservedQueue {
  readonly rates: QueueRates
}

/** Changes that can be made to many jobs. */
export type ManyVerb = 'retry' | 'cancel' | 'discard'

interface ManyRules {
  /** States of the jobs that can be changed. */
  readonly states: readonly JobState[]
  /** Jobs that are changed if the search contains neither states nor IDs. */
  readonly usual: { readonly states: readonly JobState[]; readonly waits: readonly JobWait[] }
  readonly batchSize: number
}

const manyRules: Readonly<Record<ManyVerb, ManyRules>> = {
  retry: {
    states: ['waiting', 'cancelled', 'expired', 'discarded', 'buried'],
    usual: { states: ['waiting', 'buried'], waits: ['attempt'] },
    batchSize: 500,
  },
  cancel: {
    states: ['ready', 'running', 'waiting'],
    usual: { states: ['ready', 'running', 'waiting'], waits: [] },
    batchSize: 100,
  },
  discard: { states: ['buried'], usual: { states: ['buried'], waits: [] }, batchSize: 500 },
}

export type Applicable =
  | { readonly search: JobSearch; readonly unable?: undefined }
  | { readonly search?: undefined; readonly unable: string }

/**
 * Restricts a search to the jobs that can be changed. If no job in the search's states can be changed, returns these
 * states in `unable`.
 */
export function applicable(search: JobSearch, verb: ManyVerb): Applicable {
  const { states, usual } = manyRules[verb]
  const isAnyState = search.states.length === jobStates.length && search.waits.length === 0
  if (isAnyState && search.ids.length === 0) return { search: { ...search, ...usual } }
  const wanted = search.states.filter((state) => states.includes(state))
  if (wanted.length > 0) return { search: { ...search, states: wanted } }
  return { unable: search.states.map((state) => searchStateOf({ state, waits: null })).join(' or ') }
}

/** Position at which a change of many jobs starts or continues. */
export interface ManyPlace {
  /** Time at which the change began. Jobs whose state changed after this time are skipped. */
  readonly began: Date
  /** Position in the search. Undefined at the start. */
  readonly after?: string | undefined
}

/** A batch of jobs that a search found. */
export interface FoundBatch {
  readonly ids: readonly number[]
  /** Position after which the search continues. Null if the search is complete. */
  readonly next: string | null
}

/**
 * Finds the jobs that a search selects, batch by batch. The caller changes the jobs in each batch before it reads the
 * next batch. Skips jobs whose state changed after `began`. Otherwise, a job that fails again immediately would be
 * retried a second time.
 */
export async function* batchesOf(
  observer: Observer,
  verb: ManyVerb,
  search: JobSearch,
  namespace: string | undefined,
  { began, after: start }: ManyPlace,
): AsyncGenerator<FoundBatch, void> {
  const fixed = fixTimes(search, began)
  for (let after = start; ; ) {
    const options = { namespace, limit: manyRules[verb].batchSize, after }
    const { rows, next } = await observer.jobs.matching(fixed, options)
    yield { ids: rows.map(({ id }) => id), next }
    if (next === null) return
    after = next
  }
}

/** Replaces relative times with absolute times, and excludes jobs whose state changed after `began`. */
function fixTimes(search: JobSearch, began: Date): JobSearch {
  const [since, until] = [search.since, search.until].map((time) =>
    typeof time === 'number' ? new Date(began.getTime() - time) : (time ?? null),
  )
  return { ...search, since: since!, until: until && until < began ? until : began }
}

/** Time limit of a statement, unless the expiry is longer. A page of a search without an index reads many jobs. */
const minReadMs = 10_000

const filterRules = {
  queue: text,
  kind: text,
  state: { expected: `a state, or a list of states: ${jobStates.join(', ')}`, read: readStates },
  search: { expected: 'a search', read: (given: unknown) => (typeof given === 'string' ? given : undefined) },
}
const listRules = { ...filterRules, limit: wholeNumber(1, 10_000), after: text }
const cancelRules = { reason: text }

/** Lists and finds the jobs and queues of one namespace. */
export class FoundJobs {
  readonly #reader: Reader
  readonly #schema: string
  readonly #namespace: string
  #observer: Promise<Observer> | undefined

  constructor({ database, schema, expiryMs }: JobStoreOptions, namespace: string) {
    // Without a limit, a call would never end if the connection is dead.
    const withinMs = Math.max(expiryMs, minReadMs)
    this.#reader = { read: (text, values) => database.read(text, values, withinMs) }
    this.#schema = schema
    this.#namespace = namespace
  }

  async list(options: ListJobsOptions | undefined): Promise<JobList> {
    const { limit, after, ...filter } = readOptions('jobs.list', options, listRules)
    const search = searchOf(filter)
    const { jobs } = await this.#observerOf()
    const { rows, next } = await jobs.search(search, { namespace: this.#namespace, limit, after })
    return { jobs: rows, next }
  }

  async queues(): Promise<QueueStatus[]> {
    const { noRates } = await import('../observe/index.js')
    const { jobs } = await this.#observerOf()
    const [{ rows }, rates] = await Promise.all([jobs.queues({ namespace: this.#namespace }), jobs.rates()])
    return rows.map((queue) => ({ ...queue, rates: rates.get(queue.key) ?? noRates }))
  }

  /** Changes all jobs that a filter selects. Returns the number of changed jobs. */
  async change(
    verb: ManyVerb,
    filter: JobFilter,
    change: (ids: readonly number[]) => Promise<readonly number[]>,
  ): Promise<number> {
    const read = readOptions(`jobs.${verb}Many`, filter, filterRules)
    if (Object.keys(read).length === 0 || (Object.keys(read).length === 1 && read.search?.trim() === '')) {
      throw new UsageError(
        `Expected a filter with a queue, a kind, a state or a search, got ${describe(filter)}`,
        'To change all jobs in the namespace, list their states.',
      )
    }
    const { search, unable } = applicable(searchOf(read), verb)
    if (!search) throw new UsageError(`Expected jobs that jobs.${verb}Many can change, got a filter for ${unable} jobs`)
    const observer = await this.#observerOf()
    const began = await observer.now()
    let changed = 0
    for await (const { ids } of batchesOf(observer, verb, search, this.#namespace, { began })) {
      if (ids.length > 0) changed += (await change(ids)).length
    }
    return changed
  }

  /** Most programs never list jobs, so the observer is not loaded when they start. */
  #observerOf(): Promise<Observer> {
    this.#observer ??= import('../observe/index.js').then(({ Observer }) => new Observer(this.#reader, this.#schema))
    return this.#observer
  }
}

export function reasonOf(options: { reason?: string | undefined } | undefined): string {
  return readOptions('jobs.cancelMany', options, cancelRules).reason ?? 'Cancelled'
}

/** Adds a filter's options to its search. */
function searchOf({
  queue,
  kind,
  state,
  search: text = '',
}: {
  queue?: string
  kind?: string
  state?: readonly JobState[]
  search?: string
}): JobSearch {
  const search = readJobSearch(text)
  const isAnyState = search.states.length === jobStates.length && search.waits.length === 0
  for (const [name, isTwice] of [
    ['queue', queue !== undefined && search.queues.length > 0],
    ['kind', kind !== undefined && search.kinds.length > 0],
    ['state', state !== undefined && !isAnyState],
  ] as const) {
    if (isTwice) throw new UsageError(`Expected ${name} either as an option or in the search, got both`)
  }
  return {
    ...search,
    ...(queue === undefined ? {} : { queues: [queue] }),
    ...(kind === undefined ? {} : { kinds: [kind] }),
    ...(state === undefined ? {} : { states: state }),
  }
}

function readStates(given: unknown): readonly JobState[] | undefined {
  const states = Array.isArray(given) ? (listOf(given) ?? []) : [given]
  const known = states.filter((one): one is JobState => jobStates.includes(one as JobState))
  return states.length > 0 && known.length === states.length ? [...new Set(known)] : undefined
}
