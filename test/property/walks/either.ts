import type { Step } from './fixture.ts'
import { step as leases } from './leases.ts'
import { step as locks } from './locks.ts'

/** The same names, by lock or by lease: a fleet that moves from one to the other. */
export const step: Step = (stage, walk, random) =>
  random.chance(0.5) ? locks(stage, walk, random) : leases(stage, walk, random)
