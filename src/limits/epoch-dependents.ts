import type { HoldfastError } from '../base/index.js'
import type { Epoch } from '../postgres/index.js'

interface EpochDependent {
  onLost(reason: HoldfastError): void
}

/** Tracks the permits and waits that end when their epoch ends, with one listener per epoch. */
export class EpochDependents {
  readonly #byEpoch = new Map<Epoch, Set<EpochDependent>>()

  add(epoch: Epoch, dependent: EpochDependent): void {
    let dependents = this.#byEpoch.get(epoch)
    if (!dependents) {
      dependents = new Set()
      this.#byEpoch.set(epoch, dependents)
      epoch.onLoss((reason) => this.#onLost(epoch, reason))
    }
    dependents.add(dependent)
  }

  delete(epoch: Epoch, dependent: EpochDependent): void {
    this.#byEpoch.get(epoch)?.delete(dependent)
  }

  #onLost(epoch: Epoch, reason: HoldfastError): void {
    const dependents = this.#byEpoch.get(epoch)
    this.#byEpoch.delete(epoch)
    for (const dependent of [...(dependents ?? [])]) dependent.onLost(reason)
  }
}
