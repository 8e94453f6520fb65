export * from './contended.js'
export type { Cycle, CycleSide } from './cycles.js'
export * from './deliveries.js'
export * from './fleet.js'
export * from './graph.js'
export type {
  HoldTimeline,
  HoldTimelineFilter,
  HoldTimelineRow,
  Latencies,
  LatencyFilter,
  LatencyPoint,
  ObservedTerm,
  Percentiles,
  QueueLatencies,
  TermEnding,
} from './hold-history.js'
export * from './jobs.js'
export { nameLabel, participantLabel } from './labels.js'
export * from './limits.js'
export type { LockFilter, ObservedLease, ObservedLock } from './locks.js'
export * from './metrics.js'
export type { NamesFilter, NamesOverview, OverviewLease, OverviewLock, SessionOwner } from './names.js'
export * from './observer.js'
export type {
  Latency,
  Overview,
  OverviewInstance,
  OverviewQueue,
  OverviewSchedule,
  Trouble,
} from './overview.js'
export type { Invariant, ProofReport } from './proof.js'
export { type Remedy, remediesFor } from './remedies.js'
export * from './schedule-rows.js'
export * from './schedules.js'
export type * from './tick-timeline.js'
export type { BlockedName, Blocker } from './trees.js'
