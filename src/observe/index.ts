export * from './contended.js'
export type { Cycle, CycleSide } from './cycles.js'
export * from './deliveries.js'
export * from './graph.js'
export {
  type JobFilter,
  type JobState,
  jobStates,
  mostCounted,
  type ObservedJob,
  type ObservedQueue,
  type QueueFilter,
} from './jobs.js'
export * from './limits.js'
export * from './metrics.js'
export * from './observer.js'
export type {
  InstanceGlance,
  Latency,
  LeaseGlance,
  LockGlance,
  NamesFilter,
  NamesGlance,
  Overview,
  QueueGlance,
  ScheduleGlance,
  Trouble,
  Who,
} from './overview.js'
export type { BlockedName, Blocker } from './trees.js'
export { called, whoIs } from './who.js'
