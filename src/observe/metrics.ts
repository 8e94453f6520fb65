import { loadStatements, type Reader } from '../postgres/index.js'
import { maxCounted, type ObservedQueue } from './jobs.js'
import { Observer } from './observer.js'
import { msOf, type RawRow, readRow } from './rows.js'

/** The fleet metrics that are cheap to read. */
export interface FleetMetrics {
  readonly queues: readonly (ObservedQueue & {
    /** Milliseconds since the ready job that runs next was enqueued. Null if no job is ready. */
    readonly oldestReadyMs: number | null
  })[]
  readonly schedules: readonly ScheduleMetrics[]
  /** Number of live instances by version. */
  readonly instances: readonly { readonly version: string; readonly count: number }[]
  readonly locks: { readonly held: number; readonly waiting: number }
  readonly leases: number
  readonly permits: { readonly inUse: number; readonly waiting: number }
}

export interface ScheduleMetrics {
  readonly name: string
  readonly paused: boolean
  /** Milliseconds since the next tick was due. Null if the schedule is paused or has no more ticks. */
  readonly lateMs: number | null
  /** Latest tick whose run succeeded. Extra runs do not count. */
  readonly lastSuccess: Date | null
  readonly running: number
}

const maxSchedules = 1_000

/** Reads one namespace's metrics. */
export async function fleetMetrics(reader: Reader, namespace: string, schema = 'holdfast'): Promise<FleetMetrics> {
  const sql = loadStatements<'schedules' | 'in_use'>(new URL('./metrics.sql', import.meta.url), schema)
  const observer = new Observer(reader, schema)
  const { rows: queues } = await observer.jobs.queues({ namespace })
  const now = (await observer.now()).getTime()
  const schedules = await reader.read<RawRow<ScheduleMetrics>>(sql.schedules.text, [namespace, maxSchedules])
  const [inUse] = await reader.read<{ leases: number; permits: number; waiting: number }>(sql.in_use.text, [
    namespace,
    maxCounted + 1,
  ])
  const instances = (await observer.fleet.list({ namespace })).rows.filter(({ alive }) => alive)
  const byVersion = new Map<string, number>()
  for (const { version } of instances) byVersion.set(version, (byVersion.get(version) ?? 0) + 1)
  return {
    queues: queues.map((queue) => ({
      ...queue,
      oldestReadyMs: queue.oldestAt && msOf(now - queue.oldestAt.getTime()),
    })),
    schedules: schedules.map((row) => readRow<ScheduleMetrics>(row, 'lastSuccess')),
    instances: [...byVersion].map(([version, count]) => ({ version, count })),
    locks: { held: sum(instances, 'held'), waiting: sum(instances, 'waiting') },
    leases: inUse!.leases,
    permits: { inUse: inUse!.permits, waiting: inUse!.waiting },
  }
}

function sum<Key extends string>(all: readonly Record<Key, number>[], key: Key): number {
  return all.reduce((total, one) => total + one[key], 0)
}
