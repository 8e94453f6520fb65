import { hashedKey } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'

/** The states of a limit: permits are `full`, `used` or `free`; a rate is `spent`, of which something is missing, or `rested`. */
export const limitStates = ['full', 'used', 'free', 'spent', 'rested'] as const
export type LimitState = (typeof limitStates)[number]

export interface LimitFilter {
  readonly namespace?: string | undefined
  /** What their names begin with. */
  readonly prefix?: string | undefined
  /** Default: those of which something is in use or spent. */
  readonly states?: readonly LimitState[] | undefined
  /** How many at most. Default 50. */
  readonly limit?: number | undefined
}

/** The permits of an entity, or its rate. */
export interface ObservedLimit {
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly kind: 'permits' | 'rate'
  readonly state: LimitState
  /** The weights of the permits that are held, together. Null for a rate, like the four below. */
  readonly inUse: number | null
  /** How much there may be in use, as those have it who hold and wait; null where nobody does. */
  readonly max: number | null
  readonly holders: number | null
  readonly waiting: number | null
  /** Since when somebody holds or waits. */
  readonly since: Date | null
  readonly forMs: number | null
  /** When all that was spent will be there again. Null for permits. */
  readonly restedAt: Date | null
  readonly restedInMs: number | null
}

/** Somebody who holds a permit, or waits for one. */
export interface ObservedPermit {
  readonly instance: string
  readonly host: string | null
  readonly osPid: number | null
  readonly weight: number
  /** How much there may be in use, as this one has it. */
  readonly max: number
  /** Null while it waits. */
  readonly fence: number | null
  readonly since: Date
  readonly forMs: number
}

/** All about one name. */
export interface LimitDetails {
  readonly inUse: number
  readonly max: number | null
  readonly holding: number
  readonly waiting: number
  readonly holders: readonly ObservedPermit[]
  /** In the order in which they will be served. */
  readonly waiters: readonly ObservedPermit[]
  /** Undefined when nothing is spent of a rate of that name. */
  readonly rate: { readonly restedAt: Date; readonly restedInMs: number } | undefined
}

/** So many rows of a table are looked through, and not millions. */
export const mostLimitsLooked = 20_000

/** The keys of the rows that speak of a name: of its permits, and of its rate. */
export function limitKeys(namespace: string, name: string): { permits: string; rate: string } {
  return { permits: hashedKey(namespace, `limit/${name}`).key, rate: hashedKey(namespace, `rate/${name}`).key }
}

interface LimitRow {
  key: string
  namespace: string
  name: string
  kind: ObservedLimit['kind']
  state: LimitState
  in_use: number | null
  max: number | null
  holders: number | null
  waiting: number | null
  since_ms: number | null
  for_ms: number | null
  rested_ms: number | null
  rested_in_ms: number | null
}

interface PermitRow {
  instance: string
  host: string | null
  os_pid: number | null
  weight: number
  max: number
  fence: string | null
  since_ms: number
  for_ms: number
  in_use: number
  holders: number
  waiting: number
}

/** Limits, as anybody may look at them. Part of the `Observer`. */
export class LimitsObserver {
  readonly #reader: Reader
  readonly #sql: Record<'limits' | 'limits_looked' | 'permits' | 'rate', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./limits.sql', import.meta.url), schema)
  }

  async list({ namespace, prefix, states = ['full', 'used', 'spent'], limit = 50 }: LimitFilter) {
    const values = [namespace ?? null, prefix ?? null, states, limit, mostLimitsLooked]
    return (await this.#reader.read<LimitRow>(this.#sql.limits.text, values)).map(readLimit)
  }

  async areMore(): Promise<boolean> {
    const [row] = await this.#reader.read<{ more: boolean }>(this.#sql.limits_looked.text, [mostLimitsLooked])
    return row!.more
  }

  async find(namespace: string, name: string, most: number): Promise<LimitDetails> {
    const keys = limitKeys(namespace, name)
    const rows = await this.#reader.read<PermitRow>(this.#sql.permits.text, [keys.permits, most])
    const [rate] = await this.#reader.read<{ rested_ms: number; rested_in_ms: number }>(this.#sql.rate.text, [
      keys.rate,
    ])
    const permits = rows.map(readPermit)
    return {
      inUse: rows[0]?.in_use ?? 0,
      max: rows.length === 0 ? null : Math.max(...rows.map(({ max }) => max)),
      holding: rows[0]?.holders ?? 0,
      waiting: rows[0]?.waiting ?? 0,
      holders: permits.filter(({ fence }) => fence !== null),
      waiters: permits.filter(({ fence }) => fence === null),
      rate: rate && { restedAt: new Date(rate.rested_ms), restedInMs: Math.round(rate.rested_in_ms) },
    }
  }
}

function readLimit(row: LimitRow): ObservedLimit {
  const { in_use, since_ms, for_ms, rested_ms, rested_in_ms, ...same } = row
  return {
    ...same,
    inUse: in_use,
    since: since_ms === null ? null : new Date(since_ms),
    forMs: for_ms === null ? null : Math.round(for_ms),
    restedAt: rested_ms === null ? null : new Date(rested_ms),
    restedInMs: rested_ms === null ? null : Math.round(rested_in_ms!),
  }
}

function readPermit({ instance, host, os_pid, weight, max, fence, since_ms, for_ms }: PermitRow): ObservedPermit {
  return {
    instance,
    host,
    osPid: os_pid,
    weight,
    max,
    fence: fence === null ? null : Number(fence),
    since: new Date(since_ms),
    forMs: Math.round(for_ms),
  }
}
