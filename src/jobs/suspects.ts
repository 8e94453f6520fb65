import { Batcher } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { ClaimedJob } from './claims.js'
import type { Endings } from './endings.js'
import { lost, type Outcome, returnOf } from './outcomes.js'
import type { Run } from './run.js'
import type { JobStore } from './store.js'

/**
 * Whether the job must be marked before it starts. This is necessary if a worker has died while holding the job, or if
 * the first crash would bury the job.
 */
export function isSuspect({ crashes, maxCrashes }: ClaimedJob): boolean {
  return crashes > 0 || maxCrashes === 1
}

/** Whether the next crash buries the job. */
export function hasLastChance({ crashes, maxCrashes }: ClaimedJob): boolean {
  return crashes >= maxCrashes - 1
}

/**
 * Identifies jobs that crash their workers. A suspect is a job that may have crashed a worker. A suspect is marked
 * before it runs, so that a crash is not counted for jobs that were only claimed. Jobs whose next crash would bury them
 * run one at a time, each until its outcome has been recorded. If one of these jobs crashes the process, the crash is
 * not counted for the others.
 */
export class Suspects {
  readonly #store: JobStore
  readonly #endings: Endings
  readonly #marks = new Batcher<Run, boolean>((runs) => this.#markAll(runs))
  #lastChance: Promise<unknown> = Promise.resolve()

  constructor(store: JobStore, endings: Endings) {
    this.#store = store
    this.#endings = endings
  }

  /** Marks a job as about to run. If the job must not run, resolves to the attempt's outcome. */
  async mark(run: Run): Promise<Outcome | undefined> {
    const isOurs = await this.#marks.add(run).catch(() => undefined)
    if (isOurs === undefined) return returnOf(run.job)
    return isOurs && !run.isLost ? undefined : lost
  }

  /** Resolves when the job may run. Jobs whose next crash would bury them run one at a time. */
  async waitForLastChance(run: Run): Promise<void> {
    if (!hasLastChance(run.job)) return
    const turn = this.#lastChance
    this.#lastChance = turn.then(() => this.#endings.whenRecorded(run.id))
    await turn
  }

  async #markAll(runs: readonly Run[]): Promise<boolean[]> {
    const sorted = [...runs].sort((a, b) => a.id - b.id)
    const rows = await this.#store.run<{ id: string }>('mark_started', [
      arrayLiteral(sorted.map(({ id }) => id)),
      arrayLiteral(sorted.map(({ fence }) => fence)),
    ])
    const started = new Set(rows.map(({ id }) => Number(id)))
    return runs.map(({ id }) => started.has(id))
  }
}
