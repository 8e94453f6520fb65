import { isError, isThenable, type Spans } from '../base/index.js'
import { runHandler, toBatchJob } from './batches.js'
import type { JobsContext } from './context.js'
import { validated } from './define.js'
import type { BatchJob } from './definition.js'
import { failureOf, type Outcome, outcomeOf } from './outcomes.js'
import type { Run } from './run.js'

/** Time allowed for a handler to stop after its signal is aborted. */
export const stopMs = 5_000

/**
 * Validates the input, calls the handler and returns the outcome of the attempt. Never throws or rejects, even if the
 * handler throws or returns an invalid value. Creates no promise for a synchronous handler, because a promise would account for most of
 * the cost of a small job.
 */
export function runJob(run: Run, context: JobsContext): Outcome | Promise<Outcome> {
  const { definition } = run.job
  const limit = limitTime([run])
  try {
    const input = validated(definition, run.readInput())
    const value = input instanceof Promise ? callLater(run, input, context) : call(run, input, context)
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
  const outcomes = new Map<Run, Outcome>()
  const valid: Run[] = []
  const jobs: BatchJob[] = []
  for (const run of runs) {
    try {
      jobs.push(toBatchJob(run, await validated(run.job.definition, run.readInput())))
      valid.push(run)
    } catch (error) {
      outcomes.set(run, failureOf(run, error))
    }
  }
  try {
    const values = jobs.length > 0 ? await callBatch(valid, jobs, context) : []
    for (const [at, run] of valid.entries()) outcomes.set(run, outcomeAt(run, values, at))
  } catch (error) {
    for (const run of valid) outcomes.set(run, failureOf(run, error))
  }
  return runs.map((run) => outcomes.get(run)!)
}

/**
 * Decides one job's outcome in a batch. Reading an element of the handler's list can throw, for example in a getter.
 */
function outcomeAt(run: Run, values: readonly unknown[], at: number): Outcome {
  try {
    const value = values[at]
    return isError(value) ? failureOf(run, value) : outcomeOf(run, value)
  } catch (error) {
    return failureOf(run, error)
  }
}

async function callLater(run: Run, input: Promise<unknown>, context: JobsContext): Promise<unknown> {
  return call(run, await input, context)
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

/** Starts a handler's time limit, if its definition has one. */
function limitTime(runs: readonly Run[]): TimeLimit | undefined {
  const { timeoutMs } = runs[0]!.job.definition
  return timeoutMs === undefined ? undefined : new TimeLimit(runs, timeoutMs)
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
