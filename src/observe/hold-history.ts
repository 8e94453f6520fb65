import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import type { NamedKey } from './names.js'
import { type RawRow, readRow } from './rows.js'

/** Maximum number of columns in a timeline. For a longer period, each column covers several minutes. */
const maxColumns = 480

export interface HoldTimelineFilter {
  readonly namespace?: string | undefined
  /** Text that the name must contain, ignoring case. */
  readonly search?: string | undefined
  /** Number of hours to read, at most 48. Default 48. */
  readonly hours?: number | undefined
  /** Maximum number of names. Default 50. */
  readonly limit?: number | undefined
}

/** Timeline that shows when names were held and waited for. */
export interface HoldTimeline {
  /** Start of the first column. */
  readonly from: Date
  readonly columnMs: number
  readonly columns: number
  /** Columns that end before this time are complete. Later columns may still change. */
  readonly completeUntil: Date
  /** Total number of matching names. The list contains the names with the longest waits. */
  readonly names: number
  readonly rows: readonly HoldTimelineRow[]
}

export interface HoldTimelineRow extends NamedKey {
  readonly heldMs: number
  /** Total wait time of all calls, in milliseconds. */
  readonly waitedMs: number
  /** For each column, the percentage of its time span for which the name was held. */
  readonly held: readonly number[]
  /** Average number of waiting calls in each column, in hundredths: 250 means 2.5 calls. */
  readonly waited: readonly number[]
}

/** Reason why a term ended. The comment on the `term.why` column explains each reason. */
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

/** Period in which an instance held a name. */
export interface ObservedTerm {
  readonly fence: number
  readonly kind: 'lock' | 'lease'
  readonly mode: 'exclusive' | 'shared'
  readonly instance: string
  /** Name of the instance when it recorded the term. */
  readonly instanceName: string | null
  /** The instance's host. If the host was no longer known when the term was recorded, `host` and `osPid` are null. */
  readonly host: string | null
  readonly osPid: number | null
  readonly beganAt: Date
  /** Time when the term ended. Null while the term lasts. */
  readonly endedAt: Date | null
  /**
   * Latest possible end of the term. Set only if no instance observed the end. In that case, the term ended between
   * `endedAt` and this time.
   */
  readonly goneBy: Date | null
  readonly why: TermEnding | null
  readonly lastedMs: number
}

interface RawHoldTimelineRow extends NamedKey {
  names: number
  columns: number
  from_ms: number
  now_ms: number
  places: number[] | null
  held: number[] | null
  waited: number[] | null
}

const minuteMs = 60_000
const tenthsOfMinute = 600
/** Instances record a minute's samples within the next minute. */
const recordedWithinMs = 60_000

/** Reads name samples and terms. Part of the `Observer`. */
export class HoldHistory {
  readonly #reader: Reader
  readonly #sql: Record<'timeline' | 'terms' | 'key', Statement>

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
}

function readTimelineRow(
  { key, namespace, label, columns, places, ...row }: RawHoldTimelineRow,
  minutes: number,
): HoldTimelineRow {
  const [held, waited] = [Array<number>(columns).fill(0), Array<number>(columns).fill(0)]
  // Rounds up, so that short holds are visible.
  const percent = (tenths: number) => Math.ceil((tenths * 100) / (tenthsOfMinute * minutes))
  let [heldMs, waitedMs] = [0, 0]
  for (const [at, place] of (places ?? []).entries()) {
    heldMs += row.held![at]! * 100
    waitedMs += row.waited![at]! * 100
    // Skips a sample that is newer than the last column. A new minute can begin while the statement is running.
    if (held[place] === undefined) continue
    held[place] = percent(row.held![at]!)
    waited[place] = percent(row.waited![at]!)
  }
  return { key, namespace, label, heldMs, waitedMs, held, waited }
}
