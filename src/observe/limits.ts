import { hashedKey } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type RawRow, readRow } from './rows.js'

export const limitStates = ['full', 'used', 'free', 'spent', 'refilled'] as const
export type LimitState = (typeof limitStates)[number]

export interface LimitFilter {
  readonly namespace?: string | undefined
  /** Prefix that the name must have. */
  readonly prefix?: string | undefined
  /** States to include. Default: `full`, `used` and `spent`. */
  readonly states?: readonly LimitState[] | undefined
  /** Maximum number of limits. Default 50. */
  readonly limit?: number | undefined
}

/** A limit on concurrent permits, or a rate limit. */
export interface ObservedLimit {
  /**
   * 64-bit key of the permits or the rate, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the name. */
  readonly namespace: string
  /** The name. */
  readonly name: string
  /** `permits` for a limit on permits that are held at the same time, `rate` for a limit on the amount per period. */
  readonly kind: 'permits' | 'rate'
  /**
   * State of permits: `full` if no further permits are available or calls are waiting, otherwise `used` or `free`.
   * State of a rate: `spent` until the full burst is available again, then `refilled`.
   */
  readonly state: LimitState
  /**
   * Total weight of the held permits. Null for a rate.
   *
   * @fraction
   */
  readonly inUse: number | null
  /**
   * Maximum total weight, as passed by the holders and the waiting calls. Null for a rate, and if there are neither
   * holders nor waiting calls.
   */
  readonly max: number | null
  /** Number of held permits. Null for a rate. */
  readonly holders: number | null
  /** Number of waiting calls. Null for a rate. */
  readonly waiting: number | null
  /** Start of the oldest hold or wait. Null for a rate, and if there are neither holds nor waits. */
  readonly since: Date | null
  /** Milliseconds since the oldest hold or wait started, according to the database clock. */
  readonly forMs: number | null
  /** Time when the full burst will be available again. Null for permits. */
  readonly refilledAt: Date | null
  /** Milliseconds until the full burst is available again. Null for permits. */
  readonly refilledInMs: number | null
}

/** A permit, or a call that is waiting for permits. */
export interface ObservedPermit {
  /** Instance that holds the permit or is waiting for it. */
  readonly instance: string
  /** Name of the instance. Null if the instance is no longer known. */
  readonly instanceName: string | null
  /** Host of the instance. Null if the instance is no longer known. */
  readonly host: string | null
  /** Operating system process ID of the instance. Null if the instance is no longer known. */
  readonly osPid: number | null
  /** Weight of the permit. */
  readonly weight: number
  /** Maximum total weight that this call passed. */
  readonly max: number
  /** Fencing token of the grant. Null while the call is waiting. */
  readonly fence: number | null
  /** Time of the grant, or start of the wait. */
  readonly since: Date
  /** Milliseconds since the grant or the start of the wait, according to the database clock. */
  readonly forMs: number
}

/** One name's permits and rate. */
export interface LimitDetails {
  /**
   * Total weight of the held permits.
   *
   * @fraction
   */
  readonly inUse: number
  /** Maximum total weight. Null if no permit is held and no call is waiting. */
  readonly max: number | null
  /** Number of held permits. */
  readonly holding: number
  /** Number of waiting calls. */
  readonly waiting: number
  /** Held permits, oldest first, up to the requested number. */
  readonly holders: readonly ObservedPermit[]
  /** Waiting calls in queue order, up to the requested number. */
  readonly waiters: readonly ObservedPermit[]
  /** The rate limit with this name. Undefined if the full burst is available. */
  readonly rate: { readonly refilledAt: Date; readonly refilledInMs: number } | undefined
}

/** Maximum number of rows to scan in each table. */
export const maxLimitsSearched = 20_000

/** Returns two keys for a name: the key of its permits and the key of its rate. */
export function limitKeys(namespace: string, name: string): { permits: string; rate: string } {
  return { permits: hashedKey(namespace, `limit/${name}`).key, rate: hashedKey(namespace, `rate/${name}`).key }
}

type Rate = NonNullable<LimitDetails['rate']>

/** Reads limits and rates. Part of the `Observer`. */
export class LimitsObserver {
  readonly #reader: Reader
  readonly #sql: Record<'limits' | 'has_more_limits' | 'permits' | 'rate', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./limits.sql', import.meta.url), schema)
  }

  async list({ namespace, prefix, states = ['full', 'used', 'spent'], limit = 50 }: LimitFilter) {
    const values = [namespace ?? null, prefix ?? null, states, limit, maxLimitsSearched]
    return (await this.#reader.read<RawRow<ObservedLimit>>(this.#sql.limits.text, values)).map((row) =>
      readRow<ObservedLimit>(row, 'since', 'refilledAt'),
    )
  }

  async hasMore(): Promise<boolean> {
    const [row] = await this.#reader.read<{ more: boolean }>(this.#sql.has_more_limits.text, [maxLimitsSearched])
    return row!.more
  }

  async find(namespace: string, name: string, max: number): Promise<LimitDetails> {
    const keys = limitKeys(namespace, name)
    type Row = RawRow<ObservedPermit> & { readonly in_use: number; readonly holders: number; readonly waiting: number }
    const rows = await this.#reader.read<Row>(this.#sql.permits.text, [keys.permits, max])
    const [rate] = await this.#reader.read<RawRow<Rate>>(this.#sql.rate.text, [keys.rate])
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
      rate: rate && readRow<Rate>(rate, 'refilledAt'),
    }
  }
}
