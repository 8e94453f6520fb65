export * from './contended.js'
export type { Cycle, CycleSide } from './cycles.js'
export * from './deliveries.js'
export * from './fleet.js'
export * from './graph.js'
export * from './limits.js'
export type { LockFilter, ObservedLease, ObservedLock } from './locks.js'
export * from './metrics.js'
export type { LeaseGlance, LockGlance, NamesFilter, NamesGlance, Who } from './names.js'
export * from './observer.js'
export type {
  InstanceGlance,
  Latency,
  Overview,
  QueueGlance,
  ScheduleGlance,
  Trouble,
} from './overview.js'
export type {
  Latencies,
  LatencyFilter,
  LatencyPoint,
  ObservedTerm,
  Percentiles,
  QueueLatencies,
  Strip,
  StripFilter,
  Strips,
  TermEnding,
} from './past.js'
export type { Invariant, Proven } from './proof.js'
export type * from './ribbon.js'
export * from './schedule-rows.js'
export * from './schedules.js'
export type { BlockedName, Blocker } from './trees.js'
export { type WayOut, waysOutOf } from './ways-out.js'

export { called, whoIs } from './who.js'

export * from './work.js'
