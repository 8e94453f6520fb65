import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type RawRow, readRow } from './rows.js'

export const deliveryStates = ['in-flight', 'lost', 'done', 'failed'] as const
export type DeliveryState = (typeof deliveryStates)[number]

export interface DeliveryFilter {
  readonly namespace?: string | undefined
  readonly states?: readonly DeliveryState[] | undefined
  /** Maximum number of deliveries. Default 50. */
  readonly limit?: number | undefined
}

/** A delivery that runs now, or has an answer. */
export interface ObservedDelivery {
  /** Idempotency key of the delivery. */
  readonly key: string
  /** Namespace of the key. */
  readonly namespace: string
  /**
   * `in-flight`: the delivery runs. `lost`: the instance that ran it is gone, and the next delivery with this key runs again.
   * `done` and `failed`: it has an answer.
   */
  readonly state: DeliveryState
  /** Instance that runs or ran the delivery. */
  readonly instance: string
  /** Host of the instance. Null if the instance is no longer known. */
  readonly host: string | null
  /** Operating system process of the instance. Null if the instance is no longer known. */
  readonly osPid: number | null
  /** Fence of the run. */
  readonly fence: number
  /** Start of the run. */
  readonly startedAt: Date
  /** Time at which the answer was recorded. */
  readonly finishedAt: Date | null
  /** Time from which the key counts as never seen. */
  readonly expiresAt: Date
  /** Milliseconds since the delivery finished, or else started, by the database clock. */
  readonly forMs: number
}

/** A delivery and its answer. */
export interface DeliveryDetails extends ObservedDelivery {
  /** Fingerprint of the payload. Null if the caller gave none. */
  readonly fingerprint: string | null
  /** The answer or the failure, as JSON. Null if there is none, or if it is larger than `maxShownBytes`. */
  readonly value: string | null
  /** Size of the answer as JSON, in bytes. Null if there is none. */
  readonly valueBytes: number | null
  /** Bytes that belong to the answer. At most `maxShownBytes` of them. */
  readonly body: Buffer | null
  /** Number of these bytes. Null if there are none. */
  readonly bodyBytes: number | null
}

const dates = ['startedAt', 'finishedAt', 'expiresAt'] as const
/** Maximum number of deliveries that a search scans. */
const maxSearched = 20_000
/** Maximum number of bytes of an answer that are read. */
export const maxShownBytes = 65_536

export interface DeliverySearchResult {
  readonly rows: ObservedDelivery[]
  /** Whether more deliveries match. */
  readonly hasMore: boolean
  /** Number of deliveries that were scanned, if more exist. Null if all were scanned. */
  readonly searchedRows: number | null
}

/** Reads deliveries. Part of the `Observer`. */
export class DeliveriesObserver {
  readonly #reader: Reader
  readonly #sql: Record<'deliveries' | 'delivery', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./deliveries.sql', import.meta.url), schema)
  }

  /**
   * Finds deliveries, the latest first. With a prefix of the key, in the order of the keys. Scans at most 20,000 deliveries, and reports
   * if more exist.
   */
  async search({
    namespace,
    prefix,
    states = deliveryStates,
    limit = 50,
  }: DeliveryFilter & { readonly prefix?: string | undefined }): Promise<DeliverySearchResult> {
    const isAll = namespace === undefined && states.length === deliveryStates.length
    const searchLimit = isAll && prefix === undefined ? limit + 1 : maxSearched
    const values = [namespace ?? null, states, limit, searchLimit, prefix ?? null]
    const rows = await this.#reader.read<RawRow<ObservedDelivery> & { isCut: boolean; matches: boolean }>(
      this.#sql.deliveries.text,
      values,
    )
    const found = rows.filter(({ matches }) => matches)
    const isCut = rows.some((row) => row.isCut)
    const hasMore = found.length > limit
    return {
      rows: found.slice(0, limit).map(({ isCut: _, matches: __, ...row }) => readRow<ObservedDelivery>(row, ...dates)),
      hasMore,
      searchedRows: isCut && !hasMore && searchLimit === maxSearched ? maxSearched : null,
    }
  }

  async find(namespace: string, key: string): Promise<DeliveryDetails | undefined> {
    const values = [namespace, key, maxShownBytes]
    type Row = RawRow<Omit<DeliveryDetails, 'body'>> & { readonly body: string | null }
    const [row] = await this.#reader.read<Row>(this.#sql.delivery.text, values)
    if (!row) return undefined
    const body = row.body === null ? null : Buffer.from(row.body, 'base64')
    return { ...readRow<Omit<DeliveryDetails, 'body'>>(row, ...dates), body }
  }
}
