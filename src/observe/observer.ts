import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { CombinedQuery } from './combined-query.js'
import type { RawRow } from './dates.js'
import { DeliveriesObserver } from './deliveries.js'
import { FleetObserver } from './fleet.js'
import { buildGraph, type WaitGraph } from './graph.js'
import { type LeaseRow, LockedNames, type RecordedWaitRow } from './graph-locks.js'
import { type PlaceRow, Places } from './graph-places.js'
import {
  HoldHistory,
  type HoldTimeline,
  type HoldTimelineFilter,
  type Latencies,
  type LatencyFilter,
  type ObservedTerm,
} from './hold-history.js'
import { JobsObserver } from './jobs.js'
import { LimitsObserver } from './limits.js'
import {
  type LockFilter,
  linkRecordedWaits,
  type ObservedLease,
  type ObservedLock,
  readLease,
  readLock,
} from './locks.js'
import { type NamesFilter, type NamesOverview, NamesReader } from './names.js'
import { type Overview, OverviewReader } from './overview.js'
import { Proof, type ProofReport } from './proof.js'
import { SchedulesObserver } from './schedules.js'

/** The graph tells of so many limits, lanes and jobs that others wait for, and so many who hold and wait of each. */
const maxNames = 100
const maxPerName = 50

/**
 * Observing: what anybody may know about the fleet without taking part in it.
 *
 * - **Who is authoritative.** PostgreSQL's lock table for who holds and who waits; the row of a lease for who has it; the
 *   lock on an instance's session number, or else the time in its row, for whether it lives; the table that a job is in for
 *   its state. Other rows of Holdfast only add what people want to read: names, hosts, since when.
 * - **It only reads**, through any connection and any pooler, by queries of its own, so that it also works when the
 *   rooms that it looks at do not.
 * - **It takes no lock**, and sees one moment: a name can change hands while the answer travels.
 * - Sessions that are not Holdfast's (psql, a cron script, another language) take part in locks, so they show too.
 */
export class Observer {
  /** Permits and rates. */
  readonly limits: LimitsObserver
  /** What is run once. */
  readonly deliveries: DeliveriesObserver
  /** Rules, runs and ticks along time. */
  readonly schedules: SchedulesObserver
  /** Instances and what they are at. */
  readonly fleet: FleetObserver
  /** Queues and jobs for whoever watches them. */
  readonly jobs: JobsObserver
  readonly #reader: Reader
  readonly #sql: Record<'locks' | 'leases' | 'clock' | 'name_of', Statement>
  readonly #graph: CombinedQuery<GraphRows>
  readonly #hasBlockedWaits: Statement
  readonly #overviewReader: OverviewReader
  readonly #namesReader: NamesReader
  readonly #holdHistory: HoldHistory
  readonly #proof: Proof

  constructor(reader: Reader, schema = 'holdfast') {
    this.#reader = reader
    this.limits = new LimitsObserver(reader, schema)
    this.deliveries = new DeliveriesObserver(reader, schema)
    this.schedules = new SchedulesObserver(reader, schema)
    this.fleet = new FleetObserver(reader, schema)
    this.jobs = new JobsObserver(reader, schema)
    this.#overviewReader = new OverviewReader(reader, schema)
    this.#namesReader = new NamesReader(reader, schema)
    this.#holdHistory = new HoldHistory(reader, schema)
    this.#proof = new Proof(reader, schema)
    this.#sql = loadStatements(new URL('./observe.sql', import.meta.url), schema)
    type Part = Exclude<keyof GraphRows, 'locks'>
    const graph = loadStatements<Part | 'has_blocked_waits'>(new URL('./graph.sql', import.meta.url), schema)
    const { has_blocked_waits: hasBlockedWaits, ...parts } = graph
    this.#graph = new CombinedQuery<GraphRows>({ locks: this.#sql.locks, ...parts })
    this.#hasBlockedWaits = hasBlockedWaits
  }

  /**
   * Everything at a glance, in a few small statements whatever the size of the fleet and of its backlog: what is large is
   * bounded or estimated, and says so.
   *
   * @example
   * const { queues } = await new Observer(database).overview({ namespace: 'billing' })
   */
  overview({ namespace }: { readonly namespace?: string | undefined } = {}): Promise<Overview> {
    return this.#overviewReader.read(namespace ?? null)
  }

  /**
   * The names that are held, waited for or leased, each once, in one small statement: those that are waited for come first.
   *
   * @example
   * const { locks, counts } = await new Observer(database).names({ search: 'invoice' })
   */
  names(only: NamesFilter = {}): Promise<NamesOverview> {
    return this.#namesReader.read(only)
  }

  /**
   * Whether what Holdfast promises is true: each invariant held against its own tables and PostgreSQL's lock table, in one bounded
   * statement. What is wrong for a moment may be being repaired, so a fact counts when the same observer finds it again later than
   * `repairWithinMs` (default 20 s).
   *
   * @example
   * const broken = (await observer.proof()).invariants.filter(({ violations }) => violations > 0)
   */
  proof({ repairWithinMs }: { readonly repairWithinMs?: number | undefined } = {}): Promise<ProofReport> {
    return this.#proof.check(repairWithinMs)
  }

  /** Everybody who holds or waits for a lock: by name, holders first, then those who wait, the longest first. */
  async locks({ key, namespace }: LockFilter = {}): Promise<ObservedLock[]> {
    const values = [key ?? null, namespace ?? null, false]
    return linkRecordedWaits(
      (await this.#reader.read<RawRow<ObservedLock>>(this.#sql.locks.text, values)).map(readLock),
    )
  }

  /** Everybody who has a name by lease, and the names that a hold keeps taken. */
  async leases(only: LockFilter = {}): Promise<ObservedLease[]> {
    const values = [only.key ?? null, only.namespace ?? null]
    return (await this.#reader.read<RawRow<ObservedLease>>(this.#sql.leases.text, values)).map(readLease)
  }

  /**
   * Who waits for whom: over locks, leases, elections, limits, lanes, and jobs that wait for jobs. One statement, cheap enough
   * to be asked every second. Waits for locks are there at once, those for leases when they have lasted for a second.
   */
  async graph(only: GraphFilter = {}): Promise<WaitGraph> {
    const bounds = [maxNames + 1, maxPerName]
    const { locks, waits, ...rest } = await this.#graph.read(this.#reader, {
      locks: [null, only.namespace ?? null, true],
      limits: bounds,
      lanes: bounds,
      needs: bounds,
    })
    const isInNamespace = ({ namespace }: { namespace: string | null }) =>
      only.namespace === undefined || namespace === only.namespace
    const forNames = waits.filter((wait) => wait.kind !== 'permit' && isInNamespace(wait))
    const named = new LockedNames(linkRecordedWaits(locks.map(readLock)), forNames, rest.leased)
    const places = [rest.limits, rest.lanes, rest.needs]
    const placed = places.map((rows) => new Places(rows.filter(isInNamespace), waits))
    const names = [named, ...placed].map((room) => room.names())
    const isPartial = names.some((found, at) => at > 0 && found.length > maxNames)
    return buildGraph(
      names.flat().filter(({ kind }) => only.elections !== false || kind !== 'election'),
      [named, ...placed].flatMap((room) => [...room.participants()]),
      isPartial,
    )
  }

  /**
   * How much names were held and waited for, over the last two days: what was waited for most first. Instances tell it
   * once a minute; see src/samples.
   *
   * @example
   * const { strips } = await observer.strips({ namespace: 'billing', search: 'invoice', hours: 6 })
   */
  holdTimeline(only: HoldTimelineFilter = {}): Promise<HoldTimeline> {
    return this.#holdHistory.timeline(only)
  }

  /**
   * Who held a name from when to when, and why each term ended; the latest first. Leaderships (of `election/<name>`), and
   * locks and leases that were held for a second.
   *
   * @example
   * const [present, ...before] = await observer.terms('billing', 'election/indexer', { limit: 50 })
   */
  async terms(namespace: string, name: string, options: { readonly limit?: number } = {}): Promise<ObservedTerm[]> {
    return this.termsOf(await this.#holdHistory.keyOf(namespace, name), options)
  }

  /** The same, of a key: that of a pair, or of a number in a space. */
  termsOf(key: string, { limit = 100 }: { readonly limit?: number } = {}): Promise<ObservedTerm[]> {
    return this.#holdHistory.terms(key, limit)
  }

  /**
   * How long jobs waited and ran, minute by minute, by queue. Of a long history some are looked at and not all; `oneOf` says
   * how many there are for each.
   *
   * @example
   * const { queues } = await observer.latencies({ queue: 'mail', hours: 6 })
   */
  latencies(only: LatencyFilter = {}): Promise<Latencies> {
    return this.#holdHistory.latencies(only)
  }

  /** Whether anybody is held up: much cheaper than the graph, for whoever would ask for it again and again. */
  async hasBlockedWaits(): Promise<boolean> {
    const [row] = await this.#reader.read<{ has_blocked_waits: boolean }>(this.#hasBlockedWaits.text)
    return row!.has_blocked_waits
  }

  /** What the key was called by whoever used it first; undefined for one that nobody registered. */
  async nameOf(key: string): Promise<{ readonly namespace: string; readonly label: string } | undefined> {
    const [row] = await this.#reader.read<{ namespace: string; label: string }>(this.#sql.name_of.text, [key])
    return row
  }

  /** The time by the database's clock, to which all moments here belong. */
  async now(): Promise<Date> {
    const [row] = await this.#reader.read<{ now_ms: number }>(this.#sql.clock.text)
    return new Date(row!.now_ms)
  }
}

export interface GraphFilter {
  readonly namespace?: string | undefined
  /** False leaves elections out: who stands for one is not held up. Default true. */
  readonly elections?: boolean | undefined
}

interface GraphRows {
  locks: RawRow<ObservedLock>
  waits: RecordedWaitRow
  leased: LeaseRow
  limits: PlaceRow
  lanes: PlaceRow
  needs: PlaceRow
}
