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
export {
  type PastGap,
  type PastRun,
  type Schedule,
  type ScheduleStatus,
  Schedules,
  type SchedulesOptions,
} from './schedules.js'
