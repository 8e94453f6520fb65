import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type Raw, readRow } from './dates.js'

/** The states of a delivery. `lost`: the instance that ran it is gone, and whoever comes next runs it again. */
export const deliveryStates = ['in-flight', 'lost', 'done', 'failed'] as const
export type DeliveryState = (typeof deliveryStates)[number]

export interface DeliveryFilter {
  readonly namespace?: string | undefined
  readonly states?: readonly DeliveryState[] | undefined
  /** How many at most. Default 50. */
  readonly limit?: number | undefined
}

/** A key that is being run, or has its answer. */
export interface ObservedDelivery {
  readonly key: string
  readonly namespace: string
  readonly state: DeliveryState
  /** Which instance runs it, or ran it. */
  readonly instance: string
  /** Null, like the process, when the instance is known no more. */
  readonly host: string | null
  readonly osPid: number | null
  readonly fence: number
  readonly startedAt: Date
  readonly finishedAt: Date | null
  /** From then on the key counts as never seen. */
  readonly expiresAt: Date
  /** How long ago it finished, or else began, by the database's clock. */
  readonly forMs: number
}

export interface DeliveryDetails extends ObservedDelivery {
  readonly fingerprint: string | null
  /** The answer, or the failure, as JSON; null when there is none, or it is larger than `mostShown`. */
  readonly value: string | null
  readonly valueBytes: number | null
  /** The bytes that belong to the answer, at most `mostShown` of them. */
  readonly body: Buffer | null
  readonly bodyBytes: number | null
}

const dates = ['startedAt', 'finishedAt', 'expiresAt'] as const
/** So many deliveries are looked through for a state or a namespace, and not millions. */
const mostSearched = 20_000
/** So many bytes of an answer are read. */
export const mostShown = 65_536

export interface FoundDeliveries {
  readonly rows: ObservedDelivery[]
  /** Whether there are more than these. */
  readonly hasMore: boolean
  /** So many were looked through, and that was not all; null when all were. */
  readonly lookedAt: number | null
}

/** Deliveries, as anybody may look at them. Part of the `Observer`. */
export class DeliveriesObserver {
  readonly #reader: Reader
  readonly #sql: Record<'deliveries' | 'delivery', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./deliveries.sql', import.meta.url), schema)
  }

  /**
   * Deliveries, the latest first; or those whose keys begin so, in their order. It looks through the latest twenty thousand, or the
   * first that begin so, and says if these were not all.
   */
  async search({
    namespace,
    prefix,
    states = deliveryStates,
    limit = 50,
  }: DeliveryFilter & { readonly prefix?: string | undefined }): Promise<FoundDeliveries> {
    const isAll = namespace === undefined && states.length === deliveryStates.length
    const looked = isAll && prefix === undefined ? limit + 1 : mostSearched
    const values = [namespace ?? null, states, limit, looked, prefix ?? null]
    const rows = await this.#reader.read<Raw<ObservedDelivery> & { isCut: boolean; matches: boolean }>(
      this.#sql.deliveries.text,
      values,
    )
    const found = rows.filter(({ matches }) => matches)
    const isCut = rows.some((row) => row.isCut)
    const hasMore = found.length > limit
    return {
      rows: found.slice(0, limit).map(({ isCut: _, matches: __, ...row }) => readRow<ObservedDelivery>(row, ...dates)),
      hasMore,
      lookedAt: isCut && !hasMore && looked === mostSearched ? mostSearched : null,
    }
  }

  async find(namespace: string, key: string): Promise<DeliveryDetails | undefined> {
    const values = [namespace, key, mostShown]
    type Row = Raw<Omit<DeliveryDetails, 'body'>> & { readonly body: string | null }
    const [row] = await this.#reader.read<Row>(this.#sql.delivery.text, values)
    if (!row) return undefined
    const body = row.body === null ? null : Buffer.from(row.body, 'base64')
    return { ...readRow<Omit<DeliveryDetails, 'body'>>(row, ...dates), body }
  }
}
