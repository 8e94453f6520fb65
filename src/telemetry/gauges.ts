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
    description: '1 if this instance is fully operational; 0 also while it reconnects',
    labels: [],
    read: ({ status }) => [[status === 'up' ? 1 : 0]],
  },
  holdfast_database_up: {
    unit: 'boolean',
    description: '1 if the last check of the database from this instance succeeded',
    labels: [],
    read: ({ databaseMs }) => [[databaseMs === null ? 0 : 1]],
  },
  holdfast_database_answer_seconds: {
    unit: 's',
    description: 'Response time of the database at the last check',
    labels: [],
    read: ({ databaseMs }) => [[secondsOf(databaseMs)]],
  },
} as const satisfies Record<string, Gauge<Health>>

/** Of the fleet, from the database: every instance says the same. */
export const fleetGauges = {
  holdfast_instances: {
    unit: 'instances',
    description: 'Number of live instances',
    labels: ['version'],
    read: ({ instances }) => instances.map(({ version, count }) => [count, { version }]),
  },
  holdfast_queue_ready: {
    unit: 'jobs',
    description: 'Number of ready jobs that do not run yet; exact up to 10000, and 10001 means more',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.ready, queueLabels(queue)]),
  },
  holdfast_queue_oldest_ready_seconds: {
    unit: 's',
    description: 'Time since the first ready job in order was enqueued; 0 if no job is ready',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [secondsOf(queue.oldestReadyMs) ?? 0, queueLabels(queue)]),
  },
  holdfast_queue_running: {
    unit: 'jobs',
    description: 'Number of jobs that run or are claimed to run next',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.running, queueLabels(queue)]),
  },
  holdfast_queue_waiting: {
    unit: 'jobs',
    description:
      'Number of jobs that may not run yet: delayed, waiting for a retry, or waiting for other jobs; counted up to 10000',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.waiting, queueLabels(queue)]),
  },
  holdfast_queue_buried: {
    unit: 'jobs',
    description: 'Number of stored jobs that failed permanently (dead letters); counted up to 10000',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.buried, queueLabels(queue)]),
  },
  holdfast_queue_workers: {
    unit: 'workers',
    description: 'Number of workers that serve the queue',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.workers, queueLabels(queue)]),
  },
  holdfast_queue_paused: {
    unit: 'boolean',
    description: '1 if the queue is paused',
    labels: ['queue'],
    read: ({ queues }) => queues.map((queue) => [queue.pausedAt ? 1 : 0, queueLabels(queue)]),
  },
  holdfast_schedule_late_seconds: {
    unit: 's',
    description:
      'Time since the oldest unclaimed tick was due; 0 if there is none. Absent while the schedule is paused',
    labels: ['schedule'],
    read: ({ schedules }) => schedules.map(({ name, lateMs }) => [secondsOf(lateMs), { schedule: name }]),
  },
  holdfast_schedule_last_success_timestamp_seconds: {
    unit: 's',
    description: 'Unix time of the last tick whose run succeeded',
    labels: ['schedule'],
    read: ({ schedules }) =>
      schedules.map(({ name, lastSuccess }) => [secondsOf(lastSuccess?.getTime() ?? null), { schedule: name }]),
  },
  holdfast_schedule_running: {
    unit: 'runs',
    description: 'Number of runs of the schedule in progress',
    labels: ['schedule'],
    read: ({ schedules }) => schedules.map(({ name, running }) => [running, { schedule: name }]),
  },
  holdfast_schedule_paused: {
    unit: 'boolean',
    description: '1 if the schedule is paused',
    labels: ['schedule'],
    read: ({ schedules }) => schedules.map(({ name, paused }) => [paused ? 1 : 0, { schedule: name }]),
  },
  holdfast_locks_held: {
    unit: 'names',
    description: 'Number of names that instances hold as locks',
    labels: [],
    read: ({ locks }) => [[locks.held]],
  },
  holdfast_locks_waiting: {
    unit: 'names',
    description: 'Number of names that instances wait for',
    labels: [],
    read: ({ locks }) => [[locks.waiting]],
  },
  holdfast_leases_held: {
    unit: 'names',
    description: 'Number of leased names; counted up to 10000',
    labels: [],
    read: ({ leases }) => [[leases]],
  },
  holdfast_permits_in_use: {
    unit: 'permits',
    description: 'Sum of the weights of all held permits, over the first 10000 limits',
    labels: [],
    read: ({ permits }) => [[permits.inUse]],
  },
  holdfast_permits_waiting: {
    unit: 'callers',
    description: 'Number of callers that wait for a permit, over the first 10000 limits',
    labels: [],
    read: ({ permits }) => [[permits.waiting]],
  },
} as const satisfies Record<string, Gauge<FleetMetrics>>

function queueLabels({ name, key }: FleetMetrics['queues'][number]): Attributes {
  return { queue: name ?? key }
}

function secondsOf(ms: number | null): number | null {
  return ms === null ? null : ms / 1_000
}
