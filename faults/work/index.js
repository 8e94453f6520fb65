// What an instance does in each room. A room gives `step`, which its flows take again and again.
import { elections } from './elections.js'
import { jobs } from './jobs.js'
import { leases } from './leases.js'
import { limits } from './limits.js'
import { locks } from './locks.js'
import { once } from './once.js'
import { schedules } from './schedules.js'
import { shares } from './shares.js'

export const works = { locks, leases, elections, limits, once, shares, schedules, jobs }
