import { Batcher } from '../base/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { ClaimedJob } from './claims.js'
import { type Claims, seqsOf } from './claims.js'
import type { Endings } from './endings.js'
import type { Run } from './run.js'
import type { JobStore } from './store.js'

/** A worker has died with it, or it may not crash at all: whether it is its fault is known only if it is marked before it runs. */
export function isSuspect({ crashes, maxCrashes }: ClaimedJob): boolean {
  return crashes > 0 || maxCrashes === 1
}

/** With one crash more it is buried. */
export function hasLastChance({ crashes, maxCrashes }: ClaimedJob): boolean {
  return crashes >= maxCrashes - 1
}

/**
 * A job that was with a worker when it died is marked before it runs, so that those which were only claimed are not
 * charged; and one that has its last chance runs alone among such, until its end is recorded: if the next one kills this
 * process, it is not charged.
 */
export class Suspects {
  readonly #store: JobStore
  readonly #claims: Claims
  readonly #endings: Endings
  readonly #marks = new Batcher<Run, boolean>((runs) => this.#markAll(runs))
  #lastChance: Promise<unknown> = Promise.resolve()

  constructor(store: JobStore, claims: Claims, endings: Endings) {
    this.#store = store
    this.#claims = claims
    this.#endings = endings
  }

  /** Marks that it is run. False when it is somebody else's; undefined when there was no answer. */
  mark(run: Run): Promise<boolean | undefined> {
    return this.#marks.add(run).catch(() => undefined)
  }

  /** Resolves when it may run: at once, unless others with their last chance are before it. */
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
      seqsOf(
        this.#claims,
        sorted.map(({ job }) => job),
      ),
    ])
    const started = new Set(rows.map(({ id }) => Number(id)))
    return runs.map(({ id }) => started.has(id))
  }
}
