import { hashedKey } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type Raw, readRow } from './dates.js'

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

type Rate = NonNullable<LimitDetails['rate']>

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
    return (await this.#reader.read<Raw<ObservedLimit>>(this.#sql.limits.text, values)).map((row) =>
      readRow<ObservedLimit>(row, 'since', 'restedAt'),
    )
  }

  async areMore(): Promise<boolean> {
    const [row] = await this.#reader.read<{ more: boolean }>(this.#sql.limits_looked.text, [mostLimitsLooked])
    return row!.more
  }

  async find(namespace: string, name: string, most: number): Promise<LimitDetails> {
    const keys = limitKeys(namespace, name)
    type Row = Raw<ObservedPermit> & { readonly in_use: number; readonly holders: number; readonly waiting: number }
    const rows = await this.#reader.read<Row>(this.#sql.permits.text, [keys.permits, most])
    const [rate] = await this.#reader.read<Raw<Rate>>(this.#sql.rate.text, [keys.rate])
    const permits = rows.map(({ in_use: _, holders: __, waiting: ___, ...row }) =>
      readRow<ObservedPermit>(row, 'since'),
    )
    return {
      inUse: rows[0]?.in_use ?? 0,
      max: rows.length === 0 ? null : Math.max(...rows.map(({ max }) => max)),
      holding: rows[0]?.holders ?? 0,
      waiting: rows[0]?.waiting ?? 0,
      holders: permits.filter(({ fence }) => fence !== null),
      waiters: permits.filter(({ fence }) => fence === null),
      rate: rate && readRow<Rate>(rate, 'restedAt'),
    }
  }
}
