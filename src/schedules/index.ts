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
export { type Schedule, type ScheduleListOptions, Schedules, type SchedulesOptions } from './schedules.js'
export type { PastGap, PastRun, ScheduleStatus } from './status.js'
export type { StoredScheduleOptions, UpsertOutcome } from './stored.js'
