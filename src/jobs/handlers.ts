import { type Events, isError, isThenable, type Spans, type TracerSlot } from '../base/index.js'
import { runHandler, toBatchJob } from './batches.js'
import { validated } from './define.js'
import type { Batch, BatchJob } from './definition.js'
import type { Outcomes } from './outcomes.js'
import type { Run } from './run.js'

/** How long a handler that was told to stop may take for it. */
export const stopMs = 5_000

/** Calls the handlers, for one job or for a batch: with what their schemas make of the inputs, in their time, in a span. */
export class Handlers {
  readonly #outcomes: Outcomes
  readonly #events: Events
  readonly #tracing: TracerSlot

  constructor(outcomes: Outcomes, events: Events, tracing: TracerSlot) {
    this.#outcomes = outcomes
    this.#events = events
    this.#tracing = tracing
  }

  /** What is not asynchronous is not made so: most of the cost of a small job would be that. */
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

  /** Calls the handler once for many jobs, each of which ends by itself. */
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

  /** `await` calls the `then` of whatever was returned, and hears its first word only. */
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
    const tell = this.#events.emitter('job.started')
    if (tell) for (const run of runs) tell(run.eventFields)
    const { tracer } = this.#tracing
    if (!tracer) return runHandler(batch, seen)
    return tracer.withSpan('job process', this.#spanOf(runs), () => runHandler(batch, seen))
  }

  #spanOf(runs: readonly Run[]): Spans['job process'] {
    const { queue, kind, attempt } = runs[0]!.eventFields
    const traces = runs.flatMap(({ job }) => job.links?.trace ?? [])
    return { queue, kind, attempt, ids: runs.map(({ id }) => id), traces }
  }

  /** The list is the user's, too: to look into it may throw, for one of its places and not for the others. */
  #answered(run: Run, answers: readonly unknown[], at: number): void {
    try {
      const answer = answers[at]
      if (isError(answer)) throw answer
      // Not asynchronous, because the jobs of a batch have no transaction.
      void this.#outcomes.succeeded(run, answer)
    } catch (error) {
      this.#outcomes.failed(run, error)
    }
  }

  /** Tells handlers when their time is over, until what this answers is called. */
  #limitTime(runs: readonly Run[], timeoutMs: number | undefined): (() => void) | undefined {
    if (timeoutMs === undefined) return undefined
    let timer = setTimeout(() => {
      for (const run of runs) run.timeOut()
      // A handler that does not stop keeps neither its place nor its job.
      timer = setTimeout(() => {
        for (const run of runs) this.#outcomes.failed(run, run.stopReason)
      }, stopMs)
    }, timeoutMs)
    return () => clearTimeout(timer)
  }
}
