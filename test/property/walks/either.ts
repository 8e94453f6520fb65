import type { Step } from './fixture.ts'
import { step as leases } from './leases.ts'
import { step as locks } from './locks.ts'

/** Acquires the same names as locks or as leases, like a fleet that migrates from one to the other. */
export const step: Step = (fixture, walk, random) =>
  random.chance(0.5) ? locks(fixture, walk, random) : leases(fixture, walk, random)
