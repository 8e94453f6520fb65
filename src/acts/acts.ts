import { deliveries } from './deliveries.js'
import { enqueue } from './enqueue.js'
import { events } from './events.js'
import { instances } from './instances.js'
import { jobs } from './jobs.js'
import { limits } from './limits.js'
import { manyJobs } from './many-jobs.js'
import { names } from './names.js'
import { queues } from './queues.js'
import { schedules } from './schedules.js'

/** All acts by name. An act's name is also the name of the right to run that act. */
export const acts = {
  ...names,
  ...schedules,
  ...queues,
  ...jobs,
  ...manyJobs,
  ...enqueue,
  ...events,
  ...deliveries,
  ...limits,
  ...instances,
}

export type Acts = typeof acts
export type ActName = keyof Acts
