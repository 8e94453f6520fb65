import { type Events, isError, isThenable, type Spans, type TracerSlot } from '../base/index.js'
import { runHandler, toBatchJob } from './batches.js'
import type { JobsContext } from './context.js'
import { validated } from './define.js'
import type { Batch, BatchJob } from './definition.js'
import type { Outcomes } from './outcomes.js'
import type { Run } from './run.js'

/** Time allowed for a handler to stop after its signal is aborted. */
export const stopMs = 5_000

/**
 * Calls handlers for single jobs and for batches. Validates the input, enforces the timeout and opens a tracing span.
 */
export class Handlers {
  readonly #outcomes: Outcomes
  readonly #events: Events
  readonly #tracing: TracerSlot

  constructor(outcomes: Outcomes, { events, tracing }: JobsContext) {
    this.#outcomes = outcomes
    this.#events = events
    this.#tracing = tracing
  }

  /**
   * Runs an attempt. Creates no promise for a synchronous handler, because a promise would account for most of the cost
   * of a small job.
   */
  run(run: Run): Promise<void> | undefined {
    const { definition } = run.job
    const inTime = this.#limitTime([run], definition.timeoutMs)
    try {
      const input = validated(definition, run.job.input)
      const answer = input instanceof Promise ? this.#callLater(run, input) : this.#call(run, input)
      if (isThenable(answer)) return this.#whenAnswered(run, answer, inTime)
      inTime?.()
      return this.#outcomes.succeeded(run, answer)?.catch((error) => this.#outcomes.failed(run, error))
    } catch (error) {
      inTime?.()
      this.#outcomes.failed(run, error)
      return undefined
    }
  }

  /** Calls the batch handler once for several jobs. Each job has its own outcome. */
  async runBatch(runs: readonly Run[]): Promise<void> {
    if (runs.length === 0) return
    const { definition } = runs[0]!.job
    const inTime = this.#limitTime(runs, definition.timeoutMs)
    const taken: Run[] = []
    const seen: BatchJob[] = []
    for (const run of runs) {
      try {
        seen.push(toBatchJob(run, await validated(definition, run.job.input)))
        taken.push(run)
      } catch (error) {
        this.#outcomes.failed(run, error)
      }
    }
    try {
      const answers = seen.length > 0 ? await this.#callBatch(definition.batch!, taken, seen) : []
      for (const [at, run] of taken.entries()) this.#answered(run, answers, at)
    } catch (error) {
      for (const run of taken) this.#outcomes.failed(run, error)
    } finally {
      inTime?.()
    }
  }

  /**
   * Awaits a handler's result. `await` is safe even if a thenable calls its callbacks several times, because only the
   * first call counts.
   */
  async #whenAnswered(run: Run, answer: PromiseLike<unknown>, inTime: (() => void) | undefined): Promise<void> {
    try {
      const value = await answer
      inTime?.()
      await this.#outcomes.succeeded(run, value)
    } catch (error) {
      inTime?.()
      this.#outcomes.failed(run, error)
    }
  }

  async #callLater(run: Run, input: Promise<unknown>): Promise<unknown> {
    return this.#call(run, await input)
  }

  #call(run: Run, input: unknown): unknown {
    const { definition } = run.job
    this.#events.emitter('job.started')?.(run.eventFields)
    const { tracer } = this.#tracing
    if (!tracer) return definition.run(input, run)
    return tracer.withSpan('job process', this.#spanOf([run]), () => definition.run(input, run))
  }

  #callBatch(batch: Batch, runs: readonly Run[], seen: readonly BatchJob[]): Promise<readonly unknown[]> {
    const emit = this.#events.emitter('job.started')
    if (emit) for (const run of runs) emit(run.eventFields)
    const { tracer } = this.#tracing
    if (!tracer) return runHandler(batch, seen)
    return tracer.withSpan('job process', this.#spanOf(runs), () => runHandler(batch, seen))
  }

  #spanOf(runs: readonly Run[]): Spans['job process'] {
    const { queue, kind, attempt } = runs[0]!.eventFields
    const traces = runs.flatMap(({ job }) => job.links?.trace ?? [])
    return { queue, kind, attempt, ids: runs.map(({ id }) => id), traces }
  }

  /** Records the outcome of one job. Reading an element of the handler's list can throw, for example in a getter. */
  #answered(run: Run, answers: readonly unknown[], at: number): void {
    try {
      const answer = answers[at]
      if (isError(answer)) throw answer
      // The call returns no promise, because jobs in a batch have no transaction.
      void this.#outcomes.succeeded(run, answer)
    } catch (error) {
      this.#outcomes.failed(run, error)
    }
  }

  /** Starts a timer that aborts the signals after the timeout. Returns a function that stops the timer. */
  #limitTime(runs: readonly Run[], timeoutMs: number | undefined): (() => void) | undefined {
    if (timeoutMs === undefined) return undefined
    let timer = setTimeout(() => {
      for (const run of runs) run.timeOut()
      // If the handler does not stop in time, ends the attempt and frees the slot.
      timer = setTimeout(() => {
        for (const run of runs) this.#outcomes.failed(run, run.stopReason)
      }, stopMs)
    }, timeoutMs)
    return () => clearTimeout(timer)
  }
}
