import { deliveries } from './deliveries.js'
import { instances } from './instances.js'
import { jobs } from './jobs.js'
import { limits } from './limits.js'
import { names } from './names.js'
import { schedules } from './schedules.js'

/** All acts, by name, which is also the name of the right. One file a page; a name stands in one of them only. */
export const acts = { ...names, ...schedules, ...jobs, ...deliveries, ...limits, ...instances }

export const actsOfPages = [names, schedules, jobs, deliveries, limits, instances]

export type Acts = typeof acts
export type ActName = keyof Acts
export const actNames = Object.keys(acts) as ActName[]
