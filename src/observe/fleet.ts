import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type Raw, readRow } from './dates.js'

export interface FleetFilter {
  readonly namespace?: string | undefined
  /** Instances whose id, or machine and process as in `worker-3/812`, hold this text. */
  readonly search?: string | undefined
  /** Maximum number of instances. Default: all. */
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
  readonly expiryMs: number
  /** 1 plus its reconnections. */
  readonly lives: number
  /** Settings of its sessions that did not take effect. */
  readonly refusedSettings: Readonly<Record<string, { wanted: string; got: string | null }>>
  readonly openedAt: Date
  /** How long ago that was, by the database's clock. */
  readonly forMs: number
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
    readonly namespace: string
    readonly name: string
    readonly weight: number
    readonly granted: boolean
    readonly since: Date
  }[]
  readonly leads: readonly { readonly namespace: string; readonly name: string; readonly since: Date }[]
  readonly workers: readonly {
    readonly number: number
    readonly claims: 'rows' | 'advisory'
    readonly sleeping: boolean
    readonly queues: readonly string[]
    readonly since: Date
  }[]
  readonly jobs: readonly {
    readonly id: string
    readonly kind: string
    readonly queue: string | null
    readonly namespace: string | null
    readonly progress: number | null
    readonly cancelled: string | null
    readonly since: Date
  }[]
  readonly runs: readonly {
    readonly namespace: string
    readonly name: string
    readonly tick: Date
    readonly extra: boolean
    readonly since: Date
  }[]
  /** How many schedules it has in its code. */
  readonly schedules: number
  readonly deliveries: readonly { readonly namespace: string; readonly key: string; readonly since: Date }[]
}

interface FoundWork {
  generation: number
  drainWithin: number | null
  schedules: number
  [list: string]: unknown
}

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
  async list({ namespace, search, limit }: FleetFilter = {}): Promise<Fleet> {
    const values = [namespace ?? null, search || null, limit ?? null]
    const [row] = await this.#reader.read<{ answer: Omit<Fleet, 'rows'> & { rows: Raw<FleetInstance>[] } }>(
      this.#sql.fleet.text,
      values,
    )
    const { rows, ...counts } = row!.answer
    return { ...counts, rows: rows.map((row) => readRow<FleetInstance>(row, 'openedAt', 'lifeSince', 'heardAt')) }
  }

  /** One instance; undefined where there is none with this id. */
  async find(id: string): Promise<FleetInstance | undefined> {
    return (await this.list({ search: id })).rows.find((instance) => instance.id === id)
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
    const { generation, drainWithin, schedules } = row.answer
    const read = lists.map((name) => [name, ((row.answer[name] ?? []) as object[]).map(readMoments)])
    return { generation, drainWithin, schedules, ...Object.fromEntries(read) }
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
