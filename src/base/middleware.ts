// Middleware: the program's functions that wrap every enqueue and every handler call of an instance.
import { UsageError } from './errors.js'
import type { JobMeta } from './job-meta.js'
import { isPlain } from './json.js'
import { readOptions } from './options.js'
import { describe, listOf } from './user-values.js'

/** Job that is about to be enqueued. */
export interface JobToEnqueue {
  readonly kind: string
  /** Name of the queue. */
  readonly queue: string
  /** Input, which has already been validated with the job's schema. */
  readonly input: unknown
  /** The `meta` option of the job. Empty if there is none. */
  readonly meta: JobMeta
}

/** New input and meta of a job. A property that is missing or undefined stays unchanged. */
export type JobChange = Partial<Pick<JobToEnqueue, 'input' | 'meta'>>

/** Call that enqueues one or more jobs. */
export interface EnqueueCall {
  /** All jobs of the call, in order: one job for `enqueue`, several for `enqueueMany` and `enqueueWorkflow`. */
  readonly jobs: readonly JobToEnqueue[]
}

/** Attempt of a job. In a batch, each job has its own call. */
export interface JobCall {
  readonly type: 'job'
  readonly id: number
  readonly kind: string
  /** Name of the queue. */
  readonly queue: string
  /** Attempt number, starting at 1. */
  readonly attempt: number
  /** Stored input, which has not been validated yet. */
  readonly input: unknown
  /** The `meta` with which the job was enqueued. Empty if there was none. */
  readonly meta: JobMeta
  /** Signal that aborts when the handler should stop. */
  readonly signal: AbortSignal
}

/** Run of a schedule. */
export interface ScheduleCall {
  readonly type: 'schedule'
  /** Name of the schedule. */
  readonly name: string
  readonly tick: Date
  /** Attempt number, starting at 1. */
  readonly attempt: number
  /** Signal that aborts when the handler should stop. */
  readonly signal: AbortSignal
}

/** Delivery that `once` runs because its key has no recorded result yet. */
export interface DeliveryCall {
  readonly type: 'delivery'
  readonly key: string
  /** Signal that aborts before another run can take over. */
  readonly signal: AbortSignal
}

/** Handler call. */
export type RunCall = JobCall | ScheduleCall | DeliveryCall

/**
 * Functions that wrap every enqueue and every handler call of this instance. Each function must call `next` exactly
 * once. The first middleware in the list is the outermost one.
 *
 * @example
 * const tenants: Middleware = {
 *   enqueue: ({ jobs }, next) =>
 *     next(jobs.map(({ meta }) => ({ meta: { ...meta, tenant: currentTenant.getStore() } }))),
 *   run: (call, next) => (call.type === 'job' ? currentTenant.run(call.meta.tenant, next) : next()),
 * }
 * const holdfast = await Holdfast.open({ url, middleware: [tenants] })
 */
export interface Middleware {
  /**
   * Wraps a call that enqueues jobs. `next` enqueues the jobs and resolves to their IDs. To change the jobs, pass one change
   * for each job, in the same order. The changed input is stored as it is: the schema has validated the original input. The
   * returned value is ignored.
   */
  enqueue?(
    call: EnqueueCall,
    next: (changes?: readonly JobChange[]) => Promise<readonly EnqueuedRef[]>,
  ): Promise<unknown>
  /**
   * Wraps a handler call. `next` calls the handler, and resolves with the handler's result or rejects with its error.
   * For a job, `next({ input })` replaces the input before the schema validates it. A value that this function returns
   * becomes the result. If this function returns undefined, the handler's result or error is used.
   */
  run?(call: RunCall, next: (change?: { input?: unknown }) => Promise<unknown>): Promise<unknown>
}

/** ID of an enqueued job. */
export interface EnqueuedRef {
  readonly id: number
  /** False if the job existed already, because it has the same unique key. */
  readonly isNew: boolean
}

/** The middleware of an instance, as functions that wrap one call. Undefined if no middleware wraps such calls. */
export interface MiddlewareStack {
  readonly enqueue:
    | (<Ref extends EnqueuedRef>(
        jobs: readonly JobToEnqueue[],
        enqueue: (jobs: readonly JobToEnqueue[]) => Promise<readonly Ref[]>,
      ) => Promise<readonly Ref[]>)
    | undefined
  /** The handler's argument is the input of a job, and undefined for other calls. */
  readonly run: ((call: RunCall, handler: (input: unknown) => unknown) => Promise<unknown>) | undefined
}

/** A middleware's function, and its name in error messages. */
interface Layer<Wrap> {
  readonly name: string
  readonly wrap: Wrap
}

const functionRule = {
  expected: 'a function',
  read: (given: unknown) => (typeof given === 'function' ? given : undefined),
}

/** Rule for the `middleware` option. */
export const middlewareRule = {
  expected: 'a list of middleware',
  hint: 'Example: { middleware: [{ run: (call, next) => next() }] }',
  read: (given: unknown) => {
    const list = listOf(given)
    return list && stackOf(list)
  },
}

export const noMiddleware: MiddlewareStack = { enqueue: undefined, run: undefined }

function stackOf(given: readonly unknown[]): MiddlewareStack {
  const all = given.map((one, at) => readMiddleware(one, `middleware[${at}]`))
  const layersOf = <Name extends keyof Middleware>(name: Name) =>
    all.flatMap((one, at): Layer<NonNullable<Middleware[Name]>>[] => {
      const wrap = one[name]?.bind(one) as NonNullable<Middleware[Name]> | undefined
      return wrap ? [{ name: `middleware[${at}].${name}`, wrap }] : []
    })
  const [enqueue, run] = [layersOf('enqueue'), layersOf('run')]
  return {
    enqueue: enqueue.length === 0 ? undefined : (jobs, last) => enqueueThrough(enqueue, jobs, last),
    run: run.length === 0 ? undefined : (call, handler) => runThrough(run, call, handler),
  }
}

function readMiddleware(given: unknown, name: string): Middleware {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new UsageError(`Expected ${name} to be an object with the functions enqueue or run, got ${describe(given)}`)
  }
  // If the middleware is an instance of a class, its functions are on the prototype and not among its own properties.
  const { enqueue, run } = given as Middleware
  readOptions(name, isPlain(given) ? given : { enqueue, run }, { enqueue: functionRule, run: functionRule })
  if (enqueue === undefined && run === undefined) {
    throw new UsageError(`Expected ${name} to have the function enqueue or run, got neither`)
  }
  return given as Middleware
}

async function enqueueThrough<Ref extends EnqueuedRef>(
  [layer, ...inner]: readonly Layer<NonNullable<Middleware['enqueue']>>[],
  jobs: readonly JobToEnqueue[],
  enqueue: (jobs: readonly JobToEnqueue[]) => Promise<readonly Ref[]>,
): Promise<readonly Ref[]> {
  if (!layer) return enqueue(jobs)
  const { result } = await callOnce(
    layer.name,
    (next) => layer.wrap({ jobs }, next),
    async (changes: readonly JobChange[] | undefined) =>
      enqueueThrough(inner, changes === undefined ? jobs : changedJobs(layer.name, jobs, changes), enqueue),
  )
  return result
}

function changedJobs(
  name: string,
  jobs: readonly JobToEnqueue[],
  changes: readonly JobChange[],
): readonly JobToEnqueue[] {
  if (!Array.isArray(changes) || changes.length !== jobs.length) {
    const got = Array.isArray(changes) ? `a list of ${changes.length}` : describe(changes)
    throw new UsageError(
      `Expected ${name} to pass next() a list with a change for each of the ${jobs.length} jobs, got ${got}`,
      'Example: next(jobs.map(({ meta }) => ({ meta: { ...meta, requestId } })))',
    )
  }
  return jobs.map((job, at) => {
    const { input = job.input, meta = job.meta } = readChange(name, changes[at])
    if (typeof meta === 'object' && meta !== null && isPlain(meta)) return { ...job, input, meta }
    throw new UsageError(`Expected ${name} to pass next() a plain object as meta, got ${describe(meta)}`)
  })
}

async function runThrough(
  [layer, ...inner]: readonly Layer<NonNullable<Middleware['run']>>[],
  call: RunCall,
  handler: (input: unknown) => unknown,
): Promise<unknown> {
  if (!layer) return handler(call.type === 'job' ? call.input : undefined)
  const { returned, result } = await callOnce(
    layer.name,
    (next) => layer.wrap(call, next),
    async (change: { input?: unknown } | undefined) =>
      runThrough(inner, change === undefined ? call : changedCall(layer.name, call, change), handler),
  )
  return returned === undefined ? result : returned
}

function changedCall(name: string, call: RunCall, change: { input?: unknown }): RunCall {
  const { input } = readChange(name, change)
  if (input === undefined) return call
  if (call.type === 'job') return { ...call, input }
  throw new UsageError(
    `Expected ${name} to change the input of a job only, got an input for a ${call.type}`,
    "Check call.type === 'job' first.",
  )
}

function readChange(name: string, given: unknown): JobChange {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given
  throw new UsageError(`Expected ${name} to pass next() an object such as { input }, got ${describe(given)}`)
}

/**
 * Calls a middleware's function, which must call `next` exactly once. Returns the function's value and the result of
 * `next`. Waits for `next` even if the function does not, because the handler must not continue to run after its
 * attempt has ended.
 */
async function callOnce<Change, Result>(
  name: string,
  call: (next: (change?: Change) => Promise<Result>) => unknown,
  proceed: (change: Change | undefined) => Promise<Result>,
): Promise<{ returned: unknown; result: Promise<Result> }> {
  let result: Promise<Result> | undefined
  let misuse: UsageError | undefined
  let isOver = false
  const next = (change?: Change): Promise<Result> => {
    const isFirst = !isOver && result === undefined
    if (!isFirst) misuse = misuseOf(name, isOver ? 'a call after the function had ended' : 'a second call')
    const answer = isFirst ? proceed(change) : Promise.reject(misuse)
    // A function that does not await `next` must not end the process with an unhandled rejection.
    answer.catch(() => {})
    if (isFirst) result = answer
    return answer
  }
  try {
    const returned = await call(next)
    await Promise.allSettled([result])
    if (misuse) throw misuse
    if (!result) throw misuseOf(name, 'no call')
    return { returned, result }
  } catch (error) {
    await Promise.allSettled([result])
    throw error
  } finally {
    isOver = true
  }
}

function misuseOf(name: string, got: string): UsageError {
  return new UsageError(
    `Expected ${name} to call next() exactly once, got ${got}`,
    'To stop a job, throw an error. To run code twice, call that code twice in the handler.',
  )
}
