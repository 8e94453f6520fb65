import { loadStatements, type Reader, type Statement } from '../postgres/index.js'

export interface FleetFilter {
  readonly namespace?: string | undefined
  /** Instances whose id, or machine and process as in `worker-3/812`, hold this text. */
  readonly search?: string | undefined
  /** How many at most. Default 200. */
  readonly limit?: number | undefined
}

/** Who takes part, and how they are. */
export interface Fleet {
  /** Those that are gone first, then those that drain, then by machine. */
  readonly rows: readonly FleetInstance[]
  /** How many there are; how many of them nobody vouches for; and how many drain, or have. */
  readonly count: number
  readonly gone: number
  readonly leaving: number
}

export interface FleetInstance {
  readonly id: string
  readonly namespace: string
  readonly host: string
  readonly osPid: number
  readonly version: string
  readonly node: string | null
  readonly state: 'open' | 'asked' | 'draining' | 'drained'
  /** Whether PostgreSQL vouches for it, or its row has not expired. False also between two lives, while it reconnects. */
  readonly alive: boolean
  /** Whether it is present by a session of its own, or by a row that it renews. */
  readonly isAnchored: boolean
  /** The server process of its anchor. */
  readonly pid: number | null
  /** What stands between it and the server, as it found out when its life began. */
  readonly pooler: string
  /** After so long in silence it is given up, in ms. */
  readonly expiry: number
  /** 1 plus its reconnections. */
  readonly lives: number
  readonly openedAt: Date
  /** When its present life began. */
  readonly lifeSince: Date
  /** When the server heard of it last; null where this role may not see that, or its session has ended. */
  readonly heardAt: Date | null
  /** By how many ms its clock was ahead of the database's when its present life began. */
  readonly clockAhead: number | null
  readonly held: number
  readonly waiting: number
  readonly leased: number
  readonly workers: number
  /** How many jobs it has claimed. */
  readonly jobs: number
}

/** What somebody has, or waits for. */
export interface Had {
  /** In decimal. */
  readonly key: string
  /** Null, like the label, for a key that nobody registered. */
  readonly namespace: string | null
  readonly label: string | null
  /** Null where that is not known yet. */
  readonly since: Date | null
}

/** What an instance has to do with names, jobs, ticks and deliveries. */
export interface InstanceWork {
  /** Settings of its sessions that did not take effect. */
  readonly refusedSettings: Readonly<Record<string, { wanted: string; got: string | null }>>
  /** How often all sessions of the server had ended at once when its life began. */
  readonly generation: number
  /** How long what runs may take, in ms, as whoever asked it to drain has said. */
  readonly drainWithin: number | null
  readonly holds: readonly (Had & { readonly mode: 'exclusive' | 'shared'; readonly fence: string | null })[]
  readonly waits: readonly (Had & {
    readonly mode: 'exclusive' | 'shared'
    readonly kind: 'lock' | 'lease' | 'permit'
  })[]
  readonly leases: readonly (Had & { readonly fence: string; readonly wanted: boolean })[]
  readonly permits: readonly {
    /** Namespace of the limit. */
    readonly namespace: string
    /** Name of the limit. */
    readonly name: string
    /** Share of the limit that the permit uses. */
    readonly weight: number
    /** Whether the permit is held. False while the call waits. */
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
    readonly claims: 'rows' | 'advisory'
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
    /**
     * Last progress that the handler reported.
     *
     * @fraction
     */
    readonly progress: number | null
    /** Reason why the job was asked to stop. */
    readonly cancelled: string | null
    /** Time of the claim. */
    readonly since: Date
  }[]
  readonly runs: readonly {
    /** Namespace of the schedule. */
    readonly namespace: string
    /** Name of the schedule. */
    readonly name: string
    /** Tick of the run. */
    readonly tick: Date
    /** Whether the run was requested in addition to the rule. */
    readonly extra: boolean
    /** Start of the run. */
    readonly since: Date
  }[]
  /** How many schedules it has in its code. */
  readonly schedules: number
  readonly deliveries: readonly { readonly namespace: string; readonly key: string; readonly since: Date }[]
}

/** A row as JSON brings it: moments are numbers of ms, whose names end so. */
type Found<Row> = {
  [Name in keyof Row as Row[Name] extends Date | null ? never : Name]: Row[Name]
} & { [name: `${string}Ms`]: number | null }

interface FoundWork {
  refusedSettings: InstanceWork['refusedSettings']
  generation: number
  drainWithin: number | null
  schedules: number
  [list: string]: unknown
}

const mostInstances = 200
const mostOfEach = 50
const lists = ['holds', 'waits', 'leases', 'permits', 'leads', 'workers', 'jobs', 'runs', 'deliveries'] as const

/** Instances and what they are at, as anybody may look at them. Part of the `Observer`. */
export class FleetObserver {
  readonly #reader: Reader
  readonly #sql: Record<'fleet' | 'instance', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./fleet.sql', import.meta.url), schema)
  }

  /**
   * Who takes part, and how they are: in one statement.
   *
   * @example
   * const { rows, gone } = await observer.fleet.list({ namespace: 'billing' })
   */
  async list({ namespace, search, limit = mostInstances }: FleetFilter = {}): Promise<Fleet> {
    const values = [namespace ?? null, search || null, limit]
    const [row] = await this.#reader.read<{ answer: Omit<Fleet, 'rows'> & { rows: Found<FleetInstance>[] } }>(
      this.#sql.fleet.text,
      values,
    )
    const { rows, ...counts } = row!.answer
    return { ...counts, rows: rows.map(readInstance) }
  }

  /**
   * What one instance holds, waits for and runs, at most so much of each; null where there is none.
   *
   * @example
   * const work = await observer.fleet.workOf('4f1c09aa52be')
   */
  async workOf(id: string, most = mostOfEach): Promise<InstanceWork | null> {
    const [row] = await this.#reader.read<{ answer: FoundWork }>(this.#sql.instance.text, [id, most])
    if (!row) return null
    const { refusedSettings, generation, drainWithin, schedules } = row.answer
    const read = lists.map((name) => [name, ((row.answer[name] ?? []) as Found<object>[]).map(readMoments)])
    return { refusedSettings, generation, drainWithin, schedules, ...Object.fromEntries(read) }
  }
}

function readInstance({ openedMs, lifeMs, heardMs, clockAhead, ...same }: Found<FleetInstance>): FleetInstance {
  return {
    ...same,
    openedAt: new Date(openedMs!),
    lifeSince: new Date(lifeMs!),
    heardAt: heardMs == null ? null : new Date(heardMs),
    clockAhead: clockAhead === null ? null : Math.round(clockAhead),
  }
}

/** `sinceMs` becomes `since`, and `tickMs` becomes `tick`. */
function readMoments(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) =>
      name.endsWith('Ms') ? [name.slice(0, -2), value === null ? null : new Date(value)] : [name, value],
    ),
  )
}
