import type { JobProgress } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { maxDeliveriesSearched } from './deliveries.js'
import type { NamedKey } from './names.js'
import { type RawRow, readDocument, readRow } from './rows.js'

export interface FleetFilter {
  readonly namespace?: string | undefined
  /** Part of the name, of the ID, or of the host and process, such as `web-1/4242`. */
  readonly search?: string | undefined
  /** Maximum number of instances. Default: all. */
  readonly limit?: number | undefined
}

export interface Fleet {
  /** Instances. Draining instances come first, then other live instances, then dead ones. Each group is sorted by name. */
  readonly rows: readonly FleetInstance[]
  /** Total number of matching instances. */
  readonly count: number
  /** Number of dead instances. */
  readonly gone: number
  /** Number of live instances that are draining or have drained. */
  readonly draining: number
}

export interface InstanceIdentity {
  /** ID of the instance. */
  readonly id: string
  /** Namespace of the instance. */
  readonly namespace: string
  /** Name of the instance. */
  readonly name: string
  /** Host of the instance. */
  readonly host: string
  /** Operating system process ID of the instance. */
  readonly osPid: number
  /** Version of Holdfast. */
  readonly version: string
}

/** An instance: a process that opened Holdfast. */
export interface FleetInstance extends InstanceIdentity {
  /** Version of Node.js. */
  readonly node: string | null
  /**
   * Progress of a drain. `open`: no drain was requested. `drain-requested`: the instance has not received the request
   * yet. `draining`: the instance is finishing its work and starts no new work. `drained`: all of the instance's work
   * has ended.
   */
  readonly state: 'open' | 'drain-requested' | 'draining' | 'drained'
  /**
   * Whether the instance has a session in PostgreSQL, or a row that has not expired. False while the instance is
   * reconnecting.
   */
  readonly alive: boolean
  /**
   * Whether the instance uses a dedicated session (anchor) to show that it is alive. If false, the instance renews its
   * row instead.
   */
  readonly isAnchored: boolean
  /** Server process of the instance's anchor. Null without an anchor. */
  readonly pid: number | null
  /** Connection pooler between the instance and the server. */
  readonly pooler: string
  /** Milliseconds without contact after which the instance counts as dead. */
  readonly expiryMs: number
  /** Number of times that the instance lost its presence and reconnected. */
  readonly reconnects: number
  /** Session settings that the server or a pooler refused. */
  readonly refusedSettings: Readonly<
    Record<
      string,
      {
        /** Value that Holdfast requested. */
        wanted: string
        /** Value that is in effect. */
        got: string | null
      }
    >
  >
  /** Time when the instance opened. */
  readonly openedAt: Date
  /** Milliseconds since the instance opened, according to the database clock. */
  readonly forMs: number
  /** Time of the last reconnection. If the instance has never reconnected, the time when it opened. */
  readonly epochSince: Date
  /**
   * Time when the server last received anything from the instance. Null if the observer's role may not see this
   * time, or if the session has ended.
   */
  readonly lastSeenAt: Date | null
  /** Milliseconds by which the instance's clock was ahead of the database clock at the last reconnection. */
  readonly clockAheadMs: number | null
  /** Number of locks that the instance holds. */
  readonly held: number
  /** Number of locks that the instance is waiting for. */
  readonly waiting: number
  /** Number of leases that the instance holds. */
  readonly leased: number
  /** Number of the instance's job workers. */
  readonly workers: number
  /** Number of jobs that the instance has claimed. */
  readonly jobs: number
}

/** A name that an instance holds or is waiting for. */
export interface NameReference extends NamedKey {
  /** Start of the hold or the wait. Null if the start is not known yet. */
  readonly since: Date | null
}

/** An instance's names, jobs, ticks and deliveries. */
export interface InstanceWork {
  /** Number of server restarts that Holdfast had counted when the instance last reconnected. */
  readonly generation: number
  /** Time limit for running work in milliseconds, as specified in the drain request. */
  readonly drainWithinMs: number | null
  readonly holds: readonly (NameReference & { readonly mode: 'exclusive' | 'shared'; readonly fence: string | null })[]
  readonly waits: readonly (NameReference & {
    readonly mode: 'exclusive' | 'shared'
    readonly kind: 'lock' | 'lease' | 'permit'
  })[]
  readonly leases: readonly (NameReference & { readonly fence: string; readonly hasWaiters: boolean })[]
  readonly permits: readonly {
    /** Namespace of the limit. */
    readonly namespace: string
    /** Name of the limit. */
    readonly name: string
    /** Weight of the permit. */
    readonly weight: number
    /** Whether the permit is held. False while the call is waiting. */
    readonly granted: boolean
    /** Time of the grant, or start of the wait. */
    readonly since: Date
  }[]
  readonly leads: readonly {
    /** Namespace of the election. */
    readonly namespace: string
    /** Name of the election. */
    readonly name: string
    /** Start of the leadership. */
    readonly since: Date
  }[]
  readonly workers: readonly {
    readonly number: number
    readonly sleeping: boolean
    readonly queues: readonly string[]
    readonly since: Date
  }[]
  readonly jobs: readonly {
    readonly id: string
    /** Name of the job definition. */
    readonly kind: string
    /** Name of the queue. Null if the name is not registered. */
    readonly queue: string | null
    /** Namespace of the queue. Null if the name of the queue is not registered. */
    readonly namespace: string | null
    /** Last progress that the handler reported: a number or an object. */
    readonly progress: JobProgress | null
    /** Reason for the request to stop the job. Null if there is no such request. */
    readonly cancelled: string | null
    /** Time of the claim. */
    readonly since: Date
  }[]
  readonly runs: readonly {
    /** Namespace of the schedule. */
    readonly namespace: string
    /** Name of the schedule. */
    readonly name: string
    /** Tick that the run belongs to. */
    readonly tick: Date
    /** Whether this is an extra run, which was requested in addition to the rule's ticks. */
    readonly extra: boolean
    /** Start of the run. */
    readonly since: Date
  }[]
  /** Number of schedules that the instance's code defines. */
  readonly schedules: number
  readonly deliveries: readonly { readonly namespace: string; readonly key: string; readonly since: Date }[]
  /** Number of deliveries that were searched, the latest first. Null if all deliveries were searched. */
  readonly searchedDeliveries: number | null
}

type InstanceWorkDocument = Pick<InstanceWork, 'generation' | 'drainWithinMs' | 'schedules'> & {
  areDeliveriesCut: boolean
} & Record<string, unknown>

const maxPerList = 50
const lists = ['holds', 'waits', 'leases', 'permits', 'leads', 'workers', 'jobs', 'runs', 'deliveries'] as const

/** Reads instances. Part of the `Observer`. */
export class FleetObserver {
  readonly #reader: Reader
  readonly #sql: Record<'fleet' | 'instance', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./fleet.sql', import.meta.url), schema)
  }

  /** Lists instances. */
  async list({ namespace, search, limit }: FleetFilter = {}): Promise<Fleet> {
    const values = [namespace ?? null, search || null, limit ?? null]
    type Document = Omit<Fleet, 'rows'> & { rows: RawRow<FleetInstance>[] }
    const { rows, ...counts } = (await readDocument<Document>(this.#reader, this.#sql.fleet, values))!
    return { ...counts, rows: rows.map(readInstance) }
  }

  /** Returns one instance, or null if the id is unknown. */
  async find(id: string): Promise<FleetInstance | null> {
    return (await this.list({ search: id })).rows.find((instance) => instance.id === id) ?? null
  }

  /**
   * Returns the instances with an id or a name, at most one per namespace unless an id equals a name. Returns dead
   * instances only if no live instance matches.
   */
  async named(idOrName: string, namespace?: string): Promise<readonly FleetInstance[]> {
    const { rows } = await this.list({ search: idOrName, namespace })
    const matching = rows.filter(({ id, name }) => id === idOrName || name === idOrName)
    const alive = matching.filter((instance) => instance.alive)
    return alive.length > 0 ? alive : matching
  }

  /** Reads one instance's current work, with at most `max` entries per list. Returns null if the id is unknown. */
  async workOf(id: string, max = maxPerList): Promise<InstanceWork | null> {
    const work = await readDocument<InstanceWorkDocument>(this.#reader, this.#sql.instance, [
      id,
      max,
      maxDeliveriesSearched,
    ])
    if (!work) return null
    const { generation, drainWithinMs, schedules } = work
    const searchedDeliveries = work.areDeliveriesCut ? maxDeliveriesSearched : null
    const read = lists.map((name) => [name, ((work[name] ?? []) as object[]).map(readTimes)])
    return { generation, drainWithinMs, schedules, searchedDeliveries, ...Object.fromEntries(read) }
  }
}

function readInstance(row: RawRow<FleetInstance>): FleetInstance {
  // `readRow` returns 0 for a negative time, but a clock can also be behind.
  return { ...readRow<FleetInstance>(row, 'openedAt', 'epochSince', 'lastSeenAt'), clockAheadMs: row.clockAheadMs }
}

/** Converts `sinceMs` to the date `since`, and `tickMs` to the date `tick`. */
function readTimes(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) =>
      name.endsWith('Ms') ? [name.slice(0, -2), value === null ? null : new Date(value)] : [name, value],
    ),
  )
}
