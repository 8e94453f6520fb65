import { step as leases } from './leases.mjs'
import { step as locks } from './locks.mjs'

/** The same names, by lock or by lease: a fleet that moves from one to the other. */
export function step(stage, walk, random) {
  return random.chance(0.5) ? locks(stage, walk, random) : leases(stage, walk, random)
}
