import type { HoldfastError } from '../base/index.js'
import type { Life } from '../postgres/index.js'

interface Dependent {
  /** The life under which it was asked for or granted is over. */
  lost(reason: HoldfastError): void
}

/** What hangs on a life: one listener for each life, however much hangs on it. */
export class Dependents {
  readonly #byLife = new Map<Life, Set<Dependent>>()

  add(life: Life, dependent: Dependent): void {
    let dependents = this.#byLife.get(life)
    if (!dependents) {
      dependents = new Set()
      this.#byLife.set(life, dependents)
      life.onLoss((reason) => this.#lost(life, reason))
    }
    dependents.add(dependent)
  }

  delete(life: Life, dependent: Dependent): void {
    this.#byLife.get(life)?.delete(dependent)
  }

  #lost(life: Life, reason: HoldfastError): void {
    const dependents = this.#byLife.get(life)
    this.#byLife.delete(life)
    for (const dependent of [...(dependents ?? [])]) dependent.lost(reason)
  }
}
