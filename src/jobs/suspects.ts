import { Gather } from '../base/index.js'
import { arrayOf } from '../postgres/index.js'
import type { Claimed } from './claims.js'
import { type Claims, placesOf } from './claims.js'
import type { Endings } from './endings.js'
import type { Ledger } from './ledger.js'
import type { Run } from './run.js'

/** A worker has died with it, or it may not crash at all: whether it is its fault is known only if it is marked before it runs. */
export function isSuspect({ crashes, maxCrashes }: Claimed): boolean {
  return crashes > 0 || maxCrashes === 1
}

/** With one crash more it is buried. */
export function hasLastChance({ crashes, maxCrashes }: Claimed): boolean {
  return crashes >= maxCrashes - 1
}

/**
 * A job that was with a worker when it died is marked before it runs, so that those which were only claimed are not
 * charged; and one that has its last chance runs alone among such, until its end is recorded: if the next one kills this
 * process, it is not charged.
 */
export class Suspects {
  readonly #ledger: Ledger
  readonly #claims: Claims
  readonly #endings: Endings
  readonly #marks = new Gather<Run, boolean>((runs) => this.#markAll(runs))
  #lastChance: Promise<unknown> = Promise.resolve()

  constructor(ledger: Ledger, claims: Claims, endings: Endings) {
    this.#ledger = ledger
    this.#claims = claims
    this.#endings = endings
  }

  /** Marks that it is run. False when it is somebody else's; undefined when there was no answer. */
  mark(run: Run): Promise<boolean | undefined> {
    return this.#marks.ask(run).catch(() => undefined)
  }

  /** Resolves when it may run: at once, unless others with their last chance are before it. */
  async turnOf(run: Run): Promise<void> {
    if (!hasLastChance(run.job)) return
    const turn = this.#lastChance
    this.#lastChance = turn.then(() => this.#endings.whenRecorded(run.id))
    await turn
  }

  async #markAll(runs: readonly Run[]): Promise<boolean[]> {
    const sorted = [...runs].sort((a, b) => a.id - b.id)
    const rows = await this.#ledger.run<{ id: string }>('start', [
      arrayOf(sorted.map(({ id }) => id)),
      arrayOf(sorted.map(({ fence }) => fence)),
      placesOf(
        this.#claims,
        sorted.map(({ job }) => job),
      ),
    ])
    const started = new Set(rows.map(({ id }) => Number(id)))
    return runs.map(({ id }) => started.has(id))
  }
}
