import { Audit } from '../acts/index.js'
import { ClosedError } from '../base/index.js'
import { Holdfast } from '../index.js'
import { Observer } from '../observe/index.js'
import {
  checkSchema,
  type Database,
  type Executor,
  fromPgPool,
  loadStatements,
  OwnPool,
  type PgPool,
  type Reader,
  type Statement,
  schemaState,
} from '../postgres/index.js'
import { recordingPool, withoutRecording } from './record-queries.js'
import type { ViewContext } from './view.js'

/** Maximum number of connections that only read, and of connections for the other statements. */
const maxConnections = 3
const queryTimeoutMs = 10_000
/** Timeout for the clock query. If the clock query times out, the database counts as unreachable. */
const pingTimeoutMs = 2_000
/** Idle time after which a member is closed. An open member has one row in the database, which it renews regularly. */
const memberIdleMs = 60_000
/** Maximum number of open fleet members. The dashboard exceeds this number only while all members are in use. */
const maxMembers = 5
/** Period during which a measured clock offset is valid. Clocks drift by less than 1 ms in this time. */
const offsetTtlMs = 60_000

interface Member {
  readonly holdfast: Promise<Holdfast>
  /** Number of calls that use the member or are waiting for it to open. */
  uses: number
  lastUsedAt: number
}

/** Owns the dashboard's connections and fleet members, which are opened on first use. */
export class DashboardContext {
  readonly viewContext: ViewContext
  readonly #pool: PgPool
  readonly #database: Database
  readonly #members = new Map<string, Member>()
  readonly #sql: Record<'database_info' | 'clock', Statement>
  #schemaCheck: Promise<void> | undefined
  /** Milliseconds to add to `performance.now()` to get the database time. */
  #measuredOffset: { ms: number; readAt: number } | undefined
  #sweeper: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(
    given: { url: string } | { pool: PgPool },
    { schema, redact, traceUrl }: Pick<ViewContext, 'schema' | 'redact' | 'traceUrl'>,
  ) {
    if ('pool' in given) {
      this.#pool = recordingPool(given.pool)
      this.#database = fromPgPool(this.#pool)
    } else {
      const connection = { connectionString: given.url }
      const options = { max: maxConnections, applicationName: 'holdfast dashboard' }
      const [own, readers] = [new OwnPool(connection, options), new OwnPool(connection, options)]
      this.#pool = recordingPool(own.pool)
      this.#database = fromPgPool(this.#pool, connection, {
        readers: recordingPool(readers.pool),
        async close() {
          await Promise.all([own.close(), readers.close()])
        },
        closeIdleConnections() {
          own.closeIdleConnections()
          readers.closeIdleConnections()
        },
      })
    }
    this.#sql = loadStatements(new URL('./dashboard-context.sql', import.meta.url), schema)
    const executor: Executor & Reader = {
      query: (text, values) => this.#database.query(text, values, queryTimeoutMs),
      read: (text, values) => this.#database.read(text, values, queryTimeoutMs),
    }
    const observer = new Observer(executor, schema)
    const audit = new Audit(executor, schema)
    const asMember: ViewContext['asMember'] = (...given) => this.#asMember(...given)
    this.viewContext = { executor, observer, audit, schema, redact, traceUrl, asMember }
  }

  /** Address of the database, without a password. */
  get address(): string {
    return this.#database.address
  }

  /** Rejects if Holdfast is not installed in the database, or if its version is incompatible. */
  ready(): Promise<void> {
    const { executor, schema } = this.viewContext
    this.#schemaCheck ??= schemaState({ query: executor.read }, schema)
      .then((state) => checkSchema(state, schema))
      .catch((error) => {
        this.#schemaCheck = undefined
        throw error
      })
    return this.#schemaCheck
  }

  async databaseInfo() {
    await this.ready()
    const { text } = this.#sql.database_info
    const [row] = await this.viewContext.executor.read<{ server: string; now_ms: number; namespaces: string[] }>(text)
    const { now_ms: nowMs, ...info } = row!
    return { ...info, now: new Date(nowMs) }
  }

  /** Database time minus `performance.now()`, in ms. Measured at most once per minute. */
  async clockOffset(): Promise<number> {
    if (this.#measuredOffset === undefined || performance.now() - this.#measuredOffset.readAt > offsetTtlMs) {
      const sentAt = performance.now()
      const [row] = await this.viewContext.executor.read<{ now_ms: number }>(this.#sql.clock.text)
      const readAt = performance.now()
      this.#measuredOffset = { ms: row!.now_ms - (sentAt + readAt) / 2, readAt }
    }
    return this.#measuredOffset.ms
  }

  /**
   * Whether the database responds at all. Called when a query has received no response. Discards the schema check and
   * the clock offset, because the next response may come from another server.
   */
  async isReachable(): Promise<boolean> {
    this.#schemaCheck = undefined
    this.#measuredOffset = undefined
    return this.#database.query(this.#sql.clock.text, [], pingTimeoutMs).then(
      () => true,
      () => false,
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweeper)
    await Promise.all([...this.#members.keys()].map((namespace) => this.#closeMember(namespace)))
    await this.#database.close()
  }

  async #asMember<T>(namespace: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    const member = this.#members.get(namespace) ?? this.#openMember(namespace)
    member.uses++
    try {
      return await work(await member.holdfast)
    } finally {
      member.uses--
      member.lastUsedAt = performance.now()
    }
  }

  #openMember(namespace: string): Member {
    if (this.#isClosed) throw new ClosedError('The dashboard')
    const [longestIdle] = this.#idleMembers()
    if (this.#members.size >= maxMembers && longestIdle) void this.#closeMember(longestIdle[0])
    const { schema } = this.viewContext
    const pool = this.#pool
    const holdfast = withoutRecording(() =>
      Holdfast.open({ pool, schema, namespace, anchor: 'none', migrate: false, log: false }),
    )
    // While the member is opening, its caller counts as a use, so no other member can have replaced it in the map.
    holdfast.catch(() => this.#members.delete(namespace))
    const member = { holdfast, uses: 0, lastUsedAt: performance.now() }
    this.#members.set(namespace, member)
    this.#sweeper ??= setInterval(() => this.#closeIdleMembers(), memberIdleMs / 2).unref()
    return member
  }

  /** Returns the members that are not in use, longest idle first. */
  #idleMembers(): [namespace: string, member: Member][] {
    const idle = [...this.#members].filter(([, { uses }]) => uses === 0)
    return idle.sort(([, one], [, other]) => one.lastUsedAt - other.lastUsedAt)
  }

  #closeIdleMembers(): void {
    for (const [namespace, { lastUsedAt }] of this.#idleMembers()) {
      if (performance.now() - lastUsedAt > memberIdleMs) void this.#closeMember(namespace)
    }
  }

  async #closeMember(namespace: string): Promise<void> {
    const member = this.#members.get(namespace)
    this.#members.delete(namespace)
    // If the member fails to delete its database row, the row expires.
    await member?.holdfast.then((holdfast) => holdfast.close()).catch(() => {})
  }
}
