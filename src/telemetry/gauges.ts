import type { Health } from '../index.js'
import type { FleetMetrics } from '../observe/index.js'
import type { Attributes } from './instruments.js'

type Sample = readonly [value: number | null, labels?: Attributes]

/** A number that goes up and down, as the text for Prometheus has it. */
export interface Gauge<From> {
  readonly unit: string
  readonly description: string
  readonly labels: readonly string[]
  /** A number that is null is left out. */
  read(from: From): readonly Sample[]
}

/** Of this instance. */
export const instanceGauges = {
  holdfast_instance_up: {
    unit: 'boolean',
    description: 'Whether this instance can do all that it is there for; 0 also while it reconnects',
    labels: [],
    read: ({ status }) => [[status === 'up' ? 1 : 0]],
  },
  holdfast_database_up: {
    unit: 'boolean',
    description: 'Whether the database answered this instance when it was last asked',
    labels: [],
    read: ({ databaseMs }) => [[databaseMs === null ? 0 : 1]],
  },
  holdfast_database_answer_seconds: {
    unit: 's',
    description: 'How long the database took to answer when it was last asked',
    labels: [],
    read: ({ databaseMs }) => [[secondsOf(databaseMs)]],
  },
} as const satisfies Record<string, Gauge<Health>>

/** Of the fleet, from the database: every instance says the same. */
export const fleetGauges = {
  holdfast_instances: {
    unit: 'instances',
    description: 'Instances that live',
    labels: ['version'],
    read: ({ instances }) => instances.map(({ version, count }) => [count, { version }]),
  },
  holdfast_queue_ready: {
    unit: 'jobs',
    description: 'Jobs that may run now and do not yet; counted up to 10000, and 10001 says more',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.ready, ofQueue(queue)]),
  },
  holdfast_queue_oldest_ready_seconds: {
    unit: 's',
    description: 'How long ago the ready job that stands first was enqueued; 0 when none is ready',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [secondsOf(queue.oldestReadyMs) ?? 0, ofQueue(queue)]),
  },
  holdfast_queue_running: {
    unit: 'jobs',
    description: 'Jobs that run, or were claimed to be run in a moment',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.running, ofQueue(queue)]),
  },
  holdfast_queue_waiting: {
    unit: 'jobs',
    description: 'Jobs that may not run yet: delayed, to be tried again, or behind others; counted up to 10000',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.waiting, ofQueue(queue)]),
  },
  holdfast_queue_buried: {
    unit: 'jobs',
    description: 'Jobs that failed for good and are still remembered; counted up to 10000',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.buried, ofQueue(queue)]),
  },
  holdfast_queue_workers: {
    unit: 'workers',
    description: 'Workers that serve the queue',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.workers, ofQueue(queue)]),
  },
  holdfast_queue_paused: {
    unit: 'boolean',
    description: 'Whether the queue is paused',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.pausedAt ? 1 : 0, ofQueue(queue)]),
  },
  holdfast_schedule_late_seconds: {
    unit: 's',
    description:
      'For how long a tick is due that nobody has taken; 0 when none is. Absent while the schedule is paused',
    labels: ['schedule'],
    read: ({ schedules }) => schedules.map(({ name, lateMs }) => [secondsOf(lateMs), { schedule: name }]),
  },
  holdfast_schedule_last_success_timestamp_seconds: {
    unit: 's',
    description: 'The last tick whose run was done, as a Unix time',
    labels: ['schedule'],
    read: ({ schedules }) =>
      schedules.map(({ name, lastSuccess }) => [secondsOf(lastSuccess?.getTime() ?? null), { schedule: name }]),
  },
  holdfast_schedule_running: {
    unit: 'runs',
    description: 'Runs of the schedule that are under way',
    labels: ['schedule'],
    read: ({ schedules }) => schedules.map(({ name, running }) => [running, { schedule: name }]),
  },
  holdfast_schedule_paused: {
    unit: 'boolean',
    description: 'Whether the schedule is paused',
    labels: ['schedule'],
    read: ({ schedules }) => schedules.map(({ name, paused }) => [paused ? 1 : 0, { schedule: name }]),
  },
  holdfast_locks_held: {
    unit: 'names',
    description: 'Names that instances hold as locks',
    labels: [],
    read: ({ locks }) => [[locks.held]],
  },
  holdfast_locks_waiting: {
    unit: 'names',
    description: 'Names that instances wait for',
    labels: [],
    read: ({ locks }) => [[locks.waiting]],
  },
  holdfast_leases_held: {
    unit: 'names',
    description: 'Names that are leased; counted up to 10000',
    labels: [],
    read: ({ leases }) => [[leases]],
  },
  holdfast_permits_in_use: {
    unit: 'permits',
    description: 'The weights of all permits that are held, over the first 10000 limits',
    labels: [],
    read: ({ permits }) => [[permits.inUse]],
  },
  holdfast_permits_waiting: {
    unit: 'callers',
    description: 'Callers that wait for a permit, over the first 10000 limits',
    labels: [],
    read: ({ permits }) => [[permits.waiting]],
  },
} as const satisfies Record<string, Gauge<FleetMetrics>>

function ofQueue({ name, key }: FleetMetrics['queues'][number]): Attributes {
  return { queue: name ?? key }
}

function secondsOf(ms: number | null): number | null {
  return ms === null ? null : ms / 1_000
}
