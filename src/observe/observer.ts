import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { type ChangeFilter, ChangeReader, type Changes } from './changes.js'
import { CombinedQuery } from './combined-query.js'
import { DeliveriesObserver } from './deliveries.js'
import { FleetObserver } from './fleet.js'
import { buildGraph, type WaitGraph } from './graph.js'
import { type LeaseRow, LockedNames, type RecordedWaitRow } from './graph-locks.js'
import { type PlaceRow, Places } from './graph-places.js'
import { HoldHistory, type HoldTimeline, type HoldTimelineFilter, type ObservedTerm } from './hold-history.js'
import { JobKindsObserver } from './job-kinds.js'
import { JobsObserver } from './jobs.js'
import { LimitsObserver } from './limits.js'
import { type LockFilter, linkRecordedWaits, type ObservedLease, type ObservedLock, readLock } from './locks.js'
import type { NamesFilter, NamesOverview } from './names.js'
import { type Overview, type OverviewFilter, OverviewReader } from './overview.js'
import { Proof, type ProofReport } from './proof.js'
import { type RawRow, readRow } from './rows.js'
import { SchedulesObserver } from './schedules.js'
import { type Activity, type TrendFilter, TrendReader, type Trends } from './trends.js'

/** Maximum number of limits, of lanes with budgets, and of jobs in the wait graph. */
const maxNames = 100
/** Maximum number of holders, and of waits, per name in the wait graph. */
const maxPerName = 50

/**
 * Reads the fleet's state. The observer never writes, acquires no locks, and works through any connection and any
 * pooler. Its queries do not use other modules, so the observer works even if those modules fail. Each result is a
 * snapshot, and a name can change hands before the result arrives. Sessions that do not belong to Holdfast, such as
 * psql, are included, because they can hold locks and wait for locks. src/observe/README.md lists the authoritative
 * source for each fact.
 */
export class Observer {
  readonly limits: LimitsObserver
  readonly deliveries: DeliveriesObserver
  readonly schedules: SchedulesObserver
  readonly fleet: FleetObserver
  readonly jobs: JobsObserver
  readonly jobKinds: JobKindsObserver
  readonly #reader: Reader
  readonly #sql: Record<'locks' | 'leases' | 'clock' | 'name_of', Statement>
  readonly #graph: CombinedQuery<GraphRows>
  readonly #hasBlockedWaits: Statement
  readonly #overviewReader: OverviewReader
  readonly #holdHistory: HoldHistory
  readonly #trendReader: TrendReader
  readonly #changeReader: ChangeReader
  readonly #proof: Proof

  constructor(reader: Reader, schema = 'holdfast') {
    this.#reader = reader
    this.limits = new LimitsObserver(reader, schema)
    this.deliveries = new DeliveriesObserver(reader, schema)
    this.schedules = new SchedulesObserver(reader, schema)
    this.fleet = new FleetObserver(reader, schema)
    this.jobs = new JobsObserver(reader, schema)
    this.jobKinds = new JobKindsObserver(reader, schema)
    this.#overviewReader = new OverviewReader(reader, schema, this.jobs, this.schedules)
    this.#holdHistory = new HoldHistory(reader, schema)
    this.#trendReader = new TrendReader(reader, schema)
    this.#changeReader = new ChangeReader(reader, schema)
    this.#proof = new Proof(reader, schema)
    this.#sql = loadStatements(new URL('./observe.sql', import.meta.url), schema)
    type Part = Exclude<keyof GraphRows, 'locks'>
    const graph = loadStatements<Part | 'has_blocked_waits'>(new URL('./graph.sql', import.meta.url), schema)
    const { has_blocked_waits: hasBlockedWaits, ...parts } = graph
    this.#graph = new CombinedQuery<GraphRows>({ locks: this.#sql.locks, ...parts })
    this.#hasBlockedWaits = hasBlockedWaits
  }

  /**
   * Reads instances, names, schedules, queues and recent failures with a few small statements. Large lists are bounded,
   * and large counts are bounded or estimated. The result shows which lists and counts are affected.
   */
  overview(filter: OverviewFilter = {}): Promise<Overview> {
    return this.#overviewReader.read(filter)
  }

  /** Reads all names that are held, waited for or leased with one statement. Names with waiting calls come first. */
  names(filter: NamesFilter = {}): Promise<NamesOverview> {
    return this.#overviewReader.names(filter)
  }

  /**
   * Checks Holdfast's invariants with one bounded statement. A check can find a contradiction that a healthy fleet
   * resolves within seconds. The result therefore reports a contradiction as a violation only if the same observer
   * still finds it after `repairWithinMs` (default 20 s). Until then, the result counts the contradiction in
   * `suspects`.
   */
  proof({ repairWithinMs }: { readonly repairWithinMs?: number | undefined } = {}): Promise<ProofReport> {
    return this.#proof.check(repairWithinMs)
  }

  /**
   * Lists the sessions that hold locks or are waiting for locks, by name. For each name, holders come first, then the
   * waits from longest to shortest.
   */
  async locks({ key, namespace }: LockFilter = {}): Promise<ObservedLock[]> {
    const values = [key ?? null, namespace ?? null, false]
    const rows = await this.#reader.read<RawRow<ObservedLock>>(this.#sql.locks.text, values)
    return linkRecordedWaits(rows.map(readLock))
  }

  /** Lists the leases, including released leases whose minimum hold still blocks the name. */
  async leases({ key, namespace }: LockFilter = {}): Promise<ObservedLease[]> {
    const values = [key ?? null, namespace ?? null]
    const rows = await this.#reader.read<RawRow<ObservedLease>>(this.#sql.leases.text, values)
    return rows.map((row) => readRow<ObservedLease>(row, 'since'))
  }

  /**
   * Reads the wait graph of locks, leases, elections, limits, lanes, budgets and jobs. Runs one statement, which is cheap enough
   * to run every second. Waits for locks appear immediately. Waits for leases appear after one second.
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
   * Reads the times when names were held and waited for during the last two days. The names with the longest waits come
   * first. Instances record samples once a minute (src/samples).
   */
  holdTimeline(only: HoldTimelineFilter = {}): Promise<HoldTimeline> {
    return this.#holdHistory.timeline(only)
  }

  /**
   * Lists a name's terms, latest first, with the reason why each term ended. Includes election terms
   * (`election/<name>`), and the terms of locks and leases that were held for at least one second.
   */
  async terms(namespace: string, name: string, options: { readonly limit?: number } = {}): Promise<ObservedTerm[]> {
    return this.termsOf(await this.#holdHistory.keyOf(namespace, name), options)
  }

  /** Lists a key's terms. */
  termsOf(key: string, { limit = 100 }: { readonly limit?: number } = {}): Promise<ObservedTerm[]> {
    return this.#holdHistory.terms(key, limit)
  }

  /**
   * Reads the numbers of ended jobs and failed attempts, and the wait and run times of jobs: over time, by kind and by
   * queue. Reads only a sample of a long history.
   */
  trends(only: TrendFilter = {}): Promise<Trends> {
    return this.#trendReader.read(only)
  }

  /** Reads the numbers of open instances, of held names, and of waiting calls in each of the last 60 minutes. */
  activity({ namespace }: { readonly namespace?: string | undefined } = {}): Promise<Activity> {
    return this.#trendReader.activity(namespace)
  }

  /** Lists the changes in the fleet, latest first. */
  changes(only: ChangeFilter = {}): Promise<Changes> {
    return this.#changeReader.read(only)
  }

  /** Returns whether any call or job is waiting. Costs much less than reading the graph. */
  async hasBlockedWaits(): Promise<boolean> {
    const [row] = await this.#reader.read<{ has_blocked_waits: boolean }>(this.#hasBlockedWaits.text)
    return row!.has_blocked_waits
  }

  /** Returns the registered name of a key, or null if the key is not registered. */
  async nameOf(key: string): Promise<{ readonly namespace: string; readonly label: string } | null> {
    const [row] = await this.#reader.read<{ namespace: string; label: string }>(this.#sql.name_of.text, [key])
    return row ?? null
  }

  /** Returns the time of the database clock. */
  async now(): Promise<Date> {
    const [row] = await this.#reader.read<{ now_ms: number }>(this.#sql.clock.text)
    return new Date(row!.now_ms)
  }
}

export interface GraphFilter {
  readonly namespace?: string | undefined
  /** Whether to include elections, whose candidates do not count as blocked. Default true. */
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
