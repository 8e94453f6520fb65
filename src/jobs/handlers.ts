import { isError, isThenable, type JobCall, type MiddlewareStack, type Spans } from '../base/index.js'
import { runHandler, toBatchJob } from './batches.js'
import type { JobsContext } from './context.js'
import { validated } from './define.js'
import type { BatchJob } from './definition.js'
import { failureOf, type Outcome, outcomeOf } from './outcomes.js'
import { timeoutOf } from './policy.js'
import type { Run } from './run.js'
import { stopMs } from './stop-time.js'

/**
 * Validates the input, calls the handler and returns the outcome of the attempt. Never throws or rejects, even if the
 * handler throws or returns an invalid value. Creates no promise for a synchronous handler, because a promise would account for most of
 * the cost of a small job.
 */
export function runJob(run: Run, context: JobsContext): Outcome | Promise<Outcome> {
  const limit = limitTime([run])
  try {
    const wrap = context.middleware.run
    const value = wrap
      ? wrap(callOf(run), (input) => handle(run, input, context))
      : handle(run, run.readInput(), context)
    if (isThenable(value)) {
      const outcome = settle(run, value, limit)
      return limit ? Promise.race([outcome, limit.passed().then(() => failureOf(run, run.stopReason))]) : outcome
    }
    limit?.stop()
    return outcomeOf(run, value)
  } catch (error) {
    limit?.stop()
    return failureOf(run, error)
  }
}

/** Calls the batch handler once for several jobs. Returns one outcome per job, in the same order. Never rejects. */
export async function runBatch(runs: readonly Run[], context: JobsContext): Promise<readonly Outcome[]> {
  if (runs.length === 0) return []
  const limit = limitTime(runs)
  const outcomes = settleBatch(runs, context).finally(() => limit?.stop())
  if (!limit) return outcomes
  return Promise.race([outcomes, limit.passed().then(() => runs.map((run) => failureOf(run, run.stopReason)))])
}

/**
 * Awaits a handler's result. `await` is safe even if a thenable calls its callbacks several times, because only the
 * first call counts.
 */
async function settle(run: Run, answer: PromiseLike<unknown>, limit: TimeLimit | undefined): Promise<Outcome> {
  try {
    const value = await answer
    limit?.stop()
    return outcomeOf(run, value)
  } catch (error) {
    limit?.stop()
    return failureOf(run, error)
  }
}

async function settleBatch(runs: readonly Run[], context: JobsContext): Promise<readonly Outcome[]> {
  if (context.middleware.run) return settleWrappedBatch(runs, context.middleware.run, context)
  const answers = await handleBatch(runs, (run) => run.readInput(), context)
  return runs.map((run) => outcomeOfAnswer(run, answers.get(run)!))
}

/**
 * Calls the middleware once for each job, because the jobs have different inputs and outcomes. The batch handler is
 * called when the middleware of each job has called `next` or has ended. Therefore, the batch handler runs outside the
 * middleware's asynchronous contexts.
 */
async function settleWrappedBatch(
  runs: readonly Run[],
  wrap: NonNullable<MiddlewareStack['run']>,
  context: JobsContext,
): Promise<readonly Outcome[]> {
  const inputs = new Map<Run, unknown>()
  const answers = deferred<Map<Run, Answer>>()
  const wrapped = runs.map((run) => {
    const arrived = deferred<void>()
    const handler = async (input: unknown) => {
      inputs.set(run, input)
      arrived.resolve()
      const answer = (await answers.promise).get(run)!
      if ('error' in answer) throw answer.error
      return answer.value
    }
    const outcome = settle(run, (async () => wrap(callOf(run), handler))(), undefined)
    void outcome.then(() => arrived.resolve())
    return { arrived: arrived.promise, outcome }
  })
  await Promise.all(wrapped.map(({ arrived }) => arrived))
  answers.resolve(await handleBatch([...inputs.keys()], (run) => inputs.get(run), context))
  return Promise.all(wrapped.map(({ outcome }) => outcome))
}

/** Result of one job in a batch. */
type Answer = { readonly value: unknown } | { readonly error: unknown }

/** Validates the inputs, and calls the batch handler for the jobs whose input is valid. Never rejects. */
async function handleBatch(
  runs: readonly Run[],
  inputOf: (run: Run) => unknown,
  context: JobsContext,
): Promise<Map<Run, Answer>> {
  const answers = new Map<Run, Answer>()
  const valid: Run[] = []
  const jobs: BatchJob[] = []
  for (const run of runs) {
    try {
      jobs.push(toBatchJob(run, await validated(run.job.definition, inputOf(run))))
      valid.push(run)
    } catch (error) {
      answers.set(run, { error })
    }
  }
  try {
    const values = jobs.length > 0 ? await callBatch(valid, jobs, context) : []
    for (const [at, run] of valid.entries()) answers.set(run, answerAt(values, at))
  } catch (error) {
    for (const run of valid) answers.set(run, { error })
  }
  return answers
}

/** Returns the result of one job in a batch. Reading an element of the handler's list can throw, for example in a getter. */
function answerAt(values: readonly unknown[], at: number): Answer {
  try {
    const value = values[at]
    return isError(value) ? { error: value } : { value }
  } catch (error) {
    return { error }
  }
}

/** Decides the outcome of one job in a batch. Reading the value can throw, for example in a getter. */
function outcomeOfAnswer(run: Run, answer: Answer): Outcome {
  if ('error' in answer) return failureOf(run, answer.error)
  try {
    return outcomeOf(run, answer.value)
  } catch (error) {
    return failureOf(run, error)
  }
}

/** Validates the input and calls the handler. Creates no promise unless the validation is asynchronous. */
function handle(run: Run, stored: unknown, context: JobsContext): unknown {
  const input = validated(run.job.definition, stored)
  return input instanceof Promise ? callLater(run, input, context) : call(run, input, context)
}

async function callLater(run: Run, input: Promise<unknown>, context: JobsContext): Promise<unknown> {
  return call(run, await input, context)
}

/** Describes an attempt for the middleware. */
function callOf(run: Run): JobCall {
  const { id, kind, attempt, meta, signal } = run
  return { type: 'job', id, kind, queue: run.job.definition.queue, attempt, input: run.readInput(), meta, signal }
}

function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((resolver) => {
    resolve = resolver
  })
  return { promise, resolve }
}

function call(run: Run, input: unknown, { events, tracing: { tracer } }: JobsContext): unknown {
  const { definition } = run.job
  events.emitter('job.started')?.(run.eventFields)
  if (!tracer) return definition.run(input, run)
  return tracer.withSpan('job process', spanOf([run]), () => definition.run(input, run))
}

function callBatch(runs: readonly Run[], jobs: readonly BatchJob[], context: JobsContext): Promise<readonly unknown[]> {
  const { tracer } = context.tracing
  const batch = runs[0]!.job.definition.batch!
  const emit = context.events.emitter('job.started')
  if (emit) for (const run of runs) emit(run.eventFields)
  if (!tracer) return runHandler(batch, jobs)
  return tracer.withSpan('job process', spanOf(runs), () => runHandler(batch, jobs))
}

function spanOf(runs: readonly Run[]): Spans['job process'] {
  const { queue, kind, attempt } = runs[0]!.eventFields
  const traces = runs.flatMap(({ job }) => job.links?.trace ?? [])
  return { queue, kind, attempt, ids: runs.map(({ id }) => id), traces }
}

/**
 * Starts a handler's time limit, if there is one. For a batch, the shortest limit applies, because a batch is a single
 * handler call.
 */
function limitTime(runs: readonly Run[]): TimeLimit | undefined {
  let shortest = timeoutOf(runs[0]!.job)
  for (const { job } of runs) {
    const limit = timeoutOf(job)
    if (limit !== undefined && !(shortest! <= limit)) shortest = limit
  }
  return shortest === undefined ? undefined : new TimeLimit(runs, shortest)
}

/** Aborts the signals of attempts after a timeout. */
class TimeLimit {
  #timer: NodeJS.Timeout
  #resolve = () => {}

  constructor(runs: readonly Run[], timeoutMs: number) {
    this.#timer = setTimeout(() => {
      for (const run of runs) run.timeOut()
      this.#timer = setTimeout(() => this.#resolve(), stopMs)
    }, timeoutMs)
  }

  /** Resolves if the handler does not stop within 5 seconds after the timeout. */
  passed(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}
