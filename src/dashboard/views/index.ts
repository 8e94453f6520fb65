import { audit } from './audit.js'
import { deliveries } from './deliveries.js'
import { instances } from './instances.js'
import { jobs } from './jobs.js'
import { limits } from './limits.js'
import { names } from './names.js'
import { now } from './now.js'
import { schedules } from './schedules.js'
import { trends } from './trends.js'

/** All views by name. Each file in this directory contains one page's views. */
export const views = {
  ...now,
  ...names,
  ...schedules,
  ...jobs,
  ...deliveries,
  ...limits,
  ...instances,
  ...audit,
  ...trends,
}

export const pages = [now, names, schedules, jobs, deliveries, limits, instances, audit, trends]

export type Views = typeof views
export type ViewName = keyof Views
