import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type RawRow, readRow } from './dates.js'

/** A strip and a line have so many columns at most; of a time that has more minutes, several are one column. */
const maxColumns = 480
const maxPoints = 240
/** So many pages of the history are read for latencies. */
const maxPages = 500
const maxQueues = 20

export interface HoldTimelineFilter {
  readonly namespace?: string | undefined
  /** Part of the name, whatever its case. */
  readonly search?: string | undefined
  /** How far back; at most 48, which is the default. */
  readonly hours?: number | undefined
  /** How many names at most. Default 50. */
  readonly limit?: number | undefined
}

/** How much names were held and waited for. */
export interface HoldTimeline {
  /** When the first column begins. */
  readonly from: Date
  readonly columnMs: number
  readonly columns: number
  /** What ended before has been told by everybody who could. The columns after may still grow. */
  readonly completeUntil: Date
  /** How many names there are, of which those with most waiting are here. */
  readonly names: number
  readonly rows: readonly HoldTimelineRow[]
}

export interface HoldTimelineRow {
  readonly key: string
  /** Null, like the label, for a key that nobody registered. */
  readonly namespace: string | null
  readonly label: string | null
  readonly heldMs: number
  /** Of all calls together. */
  readonly waitedMs: number
  /** How much of each column it was held, in percent. */
  readonly held: readonly number[]
  /** How many calls waited for it, on average, in percent: 250 is two and a half. */
  readonly waited: readonly number[]
}

/** Why a term ended; the comment on the column `term.why` explains each. */
export type TermEnding =
  | 'released'
  | 'release-requested'
  | 'drained'
  | 'closed'
  | 'stepped-down'
  | 'replaced'
  | 'not-eligible'
  | 'session-ended'
  | 'revoked'
  | 'expired'
  | 'restarted'
  | 'lost'
  | 'gone'

/** From when to when an instance held a name. */
export interface ObservedTerm {
  readonly fence: number
  readonly kind: 'lock' | 'lease'
  readonly mode: 'exclusive' | 'shared'
  readonly instance: string
  /** Null, like the process, when it was not known any more when the term was told of. */
  readonly host: string | null
  readonly osPid: number | null
  readonly beganAt: Date
  /** Null while it lasts. */
  readonly endedAt: Date | null
  /** Where nobody could tell of the end: it was between `endedAt` and then. */
  readonly goneBy: Date | null
  readonly why: TermEnding | null
  readonly lastedMs: number
}

export interface LatencyFilter {
  readonly namespace?: string | undefined
  readonly queue?: string | undefined
  /** How far back; at most 48. Default 3. */
  readonly hours?: number | undefined
}

/** How long jobs waited and ran, by queue. */
export interface Latencies {
  /** When the first column begins. */
  readonly from: Date
  readonly columnMs: number
  readonly columns: number
  /** One of so many jobs was looked at; 1: all of them. */
  readonly oneOf: number
  /** Those of which most jobs ended first; at most 20. */
  readonly queues: readonly QueueLatencies[]
}

export interface QueueLatencies {
  readonly namespace: string
  readonly queue: string
  /** Columns in which no job was looked at are not there. */
  readonly points: readonly LatencyPoint[]
}

export interface LatencyPoint {
  /** Which column. */
  readonly column: number
  /** How many jobs were looked at. */
  readonly jobs: number
  /** From enqueued to claimed, of jobs that ran at their first try; null when there were none. A delay that was asked for counts. */
  readonly waited: Percentiles | null
  /** From claimed to done; null when none was done. */
  readonly took: Percentiles | null
}

export interface Percentiles {
  readonly p50Ms: number
  readonly p95Ms: number
  readonly p99Ms: number
}

interface RawHoldTimelineRow {
  key: string
  namespace: string | null
  label: string | null
  names: number
  columns: number
  from_ms: number
  now_ms: number
  places: number[] | null
  held: number[] | null
  waited: number[] | null
}

interface RawLatencyRow {
  namespace: string
  name: string
  step: number
  from_ms: number
  now_ms: number
  points: [column: number, jobs: number, waited: number[] | null, took: number[] | null][]
}

const minuteMs = 60_000
const tenthsOfMinute = 600
/** Instances write down a minute within the next one. */
const recordedWithinMs = 60_000

/** What was, as instances have written it down. Part of the `Observer`. */
export class HoldHistory {
  readonly #reader: Reader
  readonly #sql: Record<'timeline' | 'terms' | 'key' | 'latencies', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./hold-history.sql', import.meta.url), schema)
  }

  async timeline({ namespace, search, hours = 48, limit = 50 }: HoldTimelineFilter): Promise<HoldTimeline> {
    const minutes = Math.ceil((hours * 60) / maxColumns)
    const values = [namespace ?? null, search ?? null, hours, limit, minutes]
    const rows = await this.#reader.read<RawHoldTimelineRow>(this.#sql.timeline.text, values)
    const columns = Math.ceil((hours * 60) / minutes)
    const now = rows[0]?.now_ms ?? Date.now()
    return {
      from: new Date(rows[0]?.from_ms ?? now - columns * minutes * minuteMs),
      columnMs: minutes * minuteMs,
      columns,
      completeUntil: new Date(Math.floor((now - recordedWithinMs) / minuteMs) * minuteMs),
      names: rows[0]?.names ?? 0,
      rows: rows.map((row) => readTimelineRow(row, minutes)),
    }
  }

  async terms(key: string, limit: number): Promise<ObservedTerm[]> {
    const rows = await this.#reader.read<RawRow<ObservedTerm>>(this.#sql.terms.text, [key, limit])
    return rows.map((row) => readRow<ObservedTerm>(row, 'beganAt', 'endedAt', 'goneBy'))
  }

  async keyOf(namespace: string, name: string): Promise<string> {
    const [row] = await this.#reader.read<{ key: string }>(this.#sql.key.text, [namespace, name])
    return row!.key
  }

  async latencies({ namespace, queue, hours = 3 }: LatencyFilter): Promise<Latencies> {
    const minutes = Math.ceil((hours * 60) / maxPoints)
    const values = [hours, minutes, namespace ?? null, queue ?? null, maxQueues, maxPages]
    const rows = await this.#reader.read<RawLatencyRow>(this.#sql.latencies.text, values)
    return {
      from: new Date(rows[0]?.from_ms ?? Date.now() - hours * 3_600_000),
      columnMs: minutes * minuteMs,
      columns: Math.ceil((hours * 60) / minutes),
      oneOf: rows[0]?.step ?? 1,
      queues: rows.map(({ namespace, name, points }) => ({
        namespace,
        queue: name,
        points: points.map(([column, jobs, waited, took]) => ({
          column,
          jobs,
          waited: readPercentiles(waited),
          took: readPercentiles(took),
        })),
      })),
    }
  }
}

function readTimelineRow(
  { key, namespace, label, columns, places, ...row }: RawHoldTimelineRow,
  minutes: number,
): HoldTimelineRow {
  const [held, waited] = [Array<number>(columns).fill(0), Array<number>(columns).fill(0)]
  // What was at all is seen.
  const percent = (tenths: number) => Math.ceil((tenths * 100) / (tenthsOfMinute * minutes))
  let [heldMs, waitedMs] = [0, 0]
  for (const [at, place] of (places ?? []).entries()) {
    heldMs += row.held![at]! * 100
    waitedMs += row.waited![at]! * 100
    // The first column may begin in the middle of what it is made of.
    if (held[place] === undefined) continue
    held[place] = percent(row.held![at]!)
    waited[place] = percent(row.waited![at]!)
  }
  return { key, namespace, label, heldMs, waitedMs, held, waited }
}

function readPercentiles(given: number[] | null): Percentiles | null {
  return given && { p50Ms: given[0]!, p95Ms: given[1]!, p99Ms: given[2]! }
}
