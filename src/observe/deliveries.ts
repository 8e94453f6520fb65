import { UsageError } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type RawRow, readRow } from './rows.js'

export const deliveryStates = ['in-flight', 'lost', 'done', 'failed'] as const
export type DeliveryState = (typeof deliveryStates)[number]

export interface DeliveryFilter {
  readonly namespace?: string | undefined
  readonly states?: readonly DeliveryState[] | undefined
  /** Only deliveries that started within this number of milliseconds. */
  readonly sinceMs?: number | undefined
  /** Maximum number of deliveries. Default 50. */
  readonly limit?: number | undefined
}

/** A delivery that is running or has a recorded result. */
export interface ObservedDelivery {
  /** Idempotency key of the delivery. */
  readonly key: string
  /** Namespace of the key. */
  readonly namespace: string
  /**
   * `in-flight`: the delivery is running. `lost`: the instance that ran the delivery is dead, so the handler will run
   * again for the next delivery with the same key. `done` and `failed`: the delivery has a recorded result.
   */
  readonly state: DeliveryState
  /** Instance that is running the delivery or ran it last. */
  readonly instance: string
  /** Name of the instance. Null if the instance is no longer known. */
  readonly instanceName: string | null
  /** Host of the instance. Null if the instance is no longer known. */
  readonly host: string | null
  /** Operating system process ID of the instance. Null if the instance is no longer known. */
  readonly osPid: number | null
  /** Fencing token of the run. */
  readonly fence: number
  /** Start of the run. */
  readonly startedAt: Date
  /** Time when the result was recorded. */
  readonly finishedAt: Date | null
  /** Time when the key expires. After this time, the key counts as new. */
  readonly expiresAt: Date
  /**
   * Milliseconds since the delivery finished, or since it started if it is still running, according to the database
   * clock.
   */
  readonly forMs: number
}

/** A delivery and its result. */
export interface DeliveryDetails extends ObservedDelivery {
  /** Fingerprint of the payload. Null if the call passed no fingerprint. */
  readonly fingerprint: string | null
  /**
   * Recorded result or failure, as JSON. Null if nothing is recorded, or if the JSON is larger than `maxShownBytes`.
   */
  readonly value: string | null
  /** Size of the result as JSON, in bytes. Null if no result is recorded. */
  readonly valueBytes: number | null
  /** Binary part of the result. Contains only the first `maxShownBytes` bytes. */
  readonly body: Buffer | null
  /** Size of the result's binary part, in bytes. Null if the result has no binary part. */
  readonly bodyBytes: number | null
}

const dates = ['startedAt', 'finishedAt', 'expiresAt'] as const
/** Maximum number of deliveries that a search scans. */
export const maxDeliveriesSearched = 20_000
/** Maximum number of bytes to read from a result. */
export const maxShownBytes = 65_536

export interface DeliverySearchResult {
  readonly rows: ObservedDelivery[]
  /** Position after which the search continues. Null if the search is complete. */
  readonly next: string | null
  /** Number of scanned deliveries if the search stopped because it had scanned many. Otherwise null. */
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
   * Finds deliveries, latest first, or in key order if a key prefix is given. A page scans at most 20,000 deliveries.
   * `next` continues the search.
   */
  async search({
    namespace,
    prefix,
    states = deliveryStates,
    limit = 50,
    after,
    sinceMs,
  }: DeliveryFilter & {
    readonly prefix?: string | undefined
    /** `next` of the previous page. */
    readonly after?: string | undefined
  }): Promise<DeliverySearchResult> {
    const isAll = namespace === undefined && sinceMs === undefined && states.length === deliveryStates.length
    const searchLimit = isAll && prefix === undefined ? limit + 1 : maxDeliveriesSearched
    const values = [
      namespace ?? null,
      states,
      limit,
      searchLimit,
      prefix ?? null,
      after ? readPlace(after) : null,
      sinceMs ?? null,
    ]
    type Row = RawRow<ObservedDelivery> & { isCut: boolean; matches: boolean; place: [string, string] }
    const scanned = await this.#reader.read<Row>(this.#sql.deliveries.text, values)
    // The scan is complete up to the first position at which it stopped.
    const cutAt = scanned.findIndex(({ isCut }) => isCut)
    const found = (cutAt < 0 ? scanned : scanned.slice(0, cutAt + 1)).filter(({ matches }) => matches)
    const hasMore = found.length > limit
    const shown = found.slice(0, limit)
    const last = hasMore ? shown.at(-1) : scanned[cutAt]
    const rows = shown.map(({ isCut: _, matches: __, place: ___, ...row }) => readRow<ObservedDelivery>(row, ...dates))
    return {
      rows: prefix === undefined ? rows.sort((a, b) => changeOf(b) - changeOf(a)) : rows,
      next: last ? JSON.stringify(last.place) : null,
      searchedRows: cutAt >= 0 && !hasMore && searchLimit === maxDeliveriesSearched ? maxDeliveriesSearched : null,
    }
  }

  /** Returns one delivery, or null if the key has no delivery. */
  async find(namespace: string, key: string): Promise<DeliveryDetails | null> {
    const values = [namespace, key, maxShownBytes]
    type Row = RawRow<Omit<DeliveryDetails, 'body'>> & { readonly body: string | null }
    const [row] = await this.#reader.read<Row>(this.#sql.delivery.text, values)
    if (!row) return null
    const body = row.body === null ? null : Buffer.from(row.body, 'base64')
    return { ...readRow<Omit<DeliveryDetails, 'body'>>(row, ...dates), body }
  }
}

function changeOf({ finishedAt, startedAt }: ObservedDelivery): number {
  return (finishedAt ?? startedAt).getTime()
}

function readPlace(text: string): [string, string] {
  try {
    const place: unknown = JSON.parse(text)
    if (Array.isArray(place) && place.length === 2 && place.every((part) => typeof part === 'string')) {
      return place as [string, string]
    }
  } catch {
    // Reported below.
  }
  throw new UsageError(`Expected a page position that this version returned, got ${JSON.stringify(text.slice(0, 100))}`)
}
