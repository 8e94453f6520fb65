// An instance's workloads, one for each room.
import { changes } from './changes.ts'
import { elections } from './elections.ts'
import type { Fixture, Workload } from './fixture.ts'
import { jobs } from './jobs.ts'
import { leases } from './leases.ts'
import { limits } from './limits.ts'
import { locks } from './locks.ts'
import { once } from './once.ts'
import { schedules } from './schedules.ts'
import { shares } from './shares.ts'
import { steps } from './steps.ts'
import { stored } from './stored.ts'

export const workloads: Record<string, (fixture: Fixture) => Workload> = {
  locks,
  leases,
  elections,
  limits,
  once,
  shares,
  schedules,
  stored,
  jobs,
  steps,
  changes,
}
