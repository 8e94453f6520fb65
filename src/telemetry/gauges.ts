import type { Health } from '../index.js'
import type { FleetMetrics, ScheduleMetrics } from '../observe/index.js'
import type { Attributes } from './instruments.js'

type Sample = readonly [value: number | null, labels?: Attributes]

/** Source of the gauges of one instance. */
export interface InstanceState {
  readonly health: Health
  readonly campaigns: readonly { readonly name: string; readonly leads: boolean }[]
}

/** Definition of a Prometheus gauge. */
export interface Gauge<From> {
  readonly unit: string
  readonly description: string
  readonly labels: readonly string[]
  /** Returns the gauge's samples. A sample with the value null is omitted. */
  read(from: From): readonly Sample[]
}

type QueueMetrics = FleetMetrics['queues'][number]

function gauge<From>(unit: string, description: string, select: (from: From) => number | null): Gauge<From> {
  return { unit, description, labels: [], read: (from) => [[select(from)]] }
}

function queueGauge(unit: string, description: string, select: (queue: QueueMetrics) => number): Gauge<FleetMetrics> {
  const read = ({ queues }: FleetMetrics): Sample[] =>
    queues.map((queue) => [select(queue), { queue: queue.name ?? queue.key }])
  return { unit, description, labels: ['queue'], read }
}

function scheduleGauge(
  unit: string,
  description: string,
  select: (schedule: ScheduleMetrics) => number | null,
): Gauge<FleetMetrics> {
  const read = ({ schedules }: FleetMetrics): Sample[] =>
    schedules.map((schedule) => [select(schedule), { schedule: schedule.name }])
  return { unit, description, labels: ['schedule'], read }
}

function secondsOf(ms: number | null): number | null {
  return ms === null ? null : ms / 1_000
}

/** This instance's gauges. */
export const instanceGauges = {
  holdfast_instance_up: gauge(
    'boolean',
    '1 if this instance is fully operational; 0 otherwise, including while it is reconnecting',
    ({ health }) => (health.status === 'up' ? 1 : 0),
  ),
  holdfast_database_up: gauge('boolean', "1 if this instance's last database check succeeded", ({ health }) =>
    health.databaseMs === null ? 0 : 1,
  ),
  holdfast_database_answer_seconds: gauge('s', 'Response time of the database at the last check', ({ health }) =>
    secondsOf(health.databaseMs),
  ),
  holdfast_election_leading: {
    unit: 'boolean',
    description: '1 if this instance is the leader of the election; 0 if it is a candidate',
    labels: ['election'],
    read: ({ campaigns }) => campaigns.map(({ name, leads }) => [Number(leads), { election: name }]),
  },
} as const satisfies Record<string, Gauge<InstanceState>>

/** The fleet's gauges, read from the database. Every instance reports the same values. */
export const fleetGauges = {
  holdfast_instances: {
    unit: 'instances',
    description: 'Number of live instances',
    labels: ['version'],
    read: ({ instances }) => instances.map(({ version, count }) => [count, { version }]),
  },
  holdfast_queue_ready: queueGauge(
    'jobs',
    'Number of ready jobs that are not running yet; exact up to 10000, and 10001 means more than 10000',
    ({ ready }) => ready,
  ),
  holdfast_queue_oldest_ready_seconds: queueGauge(
    's',
    'Time since the first ready job in queue order was enqueued; 0 if no job is ready',
    ({ oldestReadyMs }) => secondsOf(oldestReadyMs) ?? 0,
  ),
  holdfast_queue_running: queueGauge(
    'jobs',
    'Number of jobs that are running, or are claimed and will run next',
    ({ running }) => running,
  ),
  holdfast_queue_waiting: queueGauge(
    'jobs',
    'Number of jobs that may not run yet: delayed, waiting for a retry, or waiting for other jobs; counted up to 10000',
    ({ waiting }) => waiting,
  ),
  holdfast_queue_buried: queueGauge(
    'jobs',
    'Number of stored jobs that failed permanently (dead letters); counted up to 10000',
    ({ buried }) => buried,
  ),
  holdfast_queue_workers: queueGauge('workers', 'Number of workers that serve the queue', ({ workers }) => workers),
  holdfast_queue_paused: queueGauge('boolean', '1 if the queue is paused', ({ pausedAt }) => Number(pausedAt !== null)),
  holdfast_schedule_late_seconds: scheduleGauge(
    's',
    'Time since the oldest unclaimed tick was due; 0 if there is none. Absent while the schedule is paused',
    ({ lateMs }) => secondsOf(lateMs),
  ),
  holdfast_schedule_last_success_timestamp_seconds: scheduleGauge(
    's',
    'Unix time of the last tick whose run succeeded',
    ({ lastSuccess }) => secondsOf(lastSuccess?.getTime() ?? null),
  ),
  holdfast_schedule_running: scheduleGauge(
    'runs',
    'Number of schedule runs that are in progress',
    ({ running }) => running,
  ),
  holdfast_schedule_paused: scheduleGauge('boolean', '1 if the schedule is paused', ({ paused }) => Number(paused)),
  holdfast_locks_held: gauge('names', 'Number of names that instances have locked', ({ locks }) => locks.held),
  holdfast_locks_waiting: gauge(
    'names',
    'Number of names that instances are waiting for',
    ({ locks }) => locks.waiting,
  ),
  holdfast_leases_held: gauge('names', 'Number of leased names; counted up to 10000', ({ leases }) => leases),
  holdfast_permits_in_use: gauge(
    'permits',
    'Sum of the weights of all held permits, counted over the first 10000 limits',
    ({ permits }) => permits.inUse,
  ),
  holdfast_permits_waiting: gauge(
    'callers',
    'Number of callers that are waiting for a permit, counted over the first 10000 limits',
    ({ permits }) => permits.waiting,
  ),
} as const satisfies Record<string, Gauge<FleetMetrics>>
