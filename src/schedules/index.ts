export type {
  JobPort,
  JobScheduleOptions,
  ScheduleDefinition,
  ScheduledJob,
  ScheduleOptions,
  ScheduleRun,
} from './definition.js'
export { defineSchedule } from './definition.js'
export * from './errors.js'
export { type Schedule, Schedules, type SchedulesOptions } from './schedules.js'
export type { PastGap, PastRun, ScheduleStatus } from './status.js'
