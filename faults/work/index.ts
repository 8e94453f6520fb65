// What an instance does in each room. A room gives `step`, which its flows take again and again.
import { elections } from './elections.ts'
import type { Fixture, Work } from './fixture.ts'
import { jobs } from './jobs.ts'
import { leases } from './leases.ts'
import { limits } from './limits.ts'
import { locks } from './locks.ts'
import { once } from './once.ts'
import { schedules } from './schedules.ts'
import { shares } from './shares.ts'

export const works: Record<string, (stage: Fixture) => Work> = {
  locks,
  leases,
  elections,
  limits,
  once,
  shares,
  schedules,
  jobs,
}
