import type { Seen } from './ledger.js'

/** What a look at a key finds. */
export type Found =
  | Exclude<Seen, { state: 'claimed' | 'unsettled' }>
  | { readonly state: 'unreachable'; readonly error: Error }

/** The look has become a run of our own, and this is its answer. */
export interface Finished<T> {
  readonly state: 'finished'
  readonly value: T
}

/** Looks at a key, and runs it if it is free; tells `turn` as soon as others can know. */
export type Try<T> = (turn: Turn, giveUp: AbortSignal) => Promise<Found | Finished<T>>

/** One caller of this process that looks at a key, and runs it if it is free, while others wait for what it finds. */
export class Turn {
  readonly found: Promise<Found>
  readonly over: Promise<void>
  /** Whether another may look for itself. */
  isOver = false
  #tell!: (found: Found) => void
  #end!: () => void

  constructor() {
    this.found = new Promise((resolve) => {
      this.#tell = resolve
    })
    this.over = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  /** Only what is told first counts. */
  tell(found: Found): void {
    this.#tell(found)
  }

  /** Whoever has heard nothing until now looks for itself. */
  end(): void {
    this.isOver = true
    this.#tell({ state: 'again' })
    this.#end()
  }
}
