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
import { Audit } from './audit.js'
import { recordingPool, withoutRecording } from './record-queries.js'
import type { Redact } from './redact.js'
import type { ViewContext } from './view.js'

const maxConnections = 5
/** A database that is asked anew before it has answered would only become slower. */
const queryTimeoutMs = 10_000
/** A database that does not even tell the time within this is gone. */
const pingTimeoutMs = 2_000
/** A member that nobody has needed for so long is closed: it costs a row and its renewals. */
const memberIdleMs = 60_000
/** There are more only while all of them are used. */
const maxMembers = 5
/** The clocks drift apart by less than a millisecond in so long. */
const offsetTtlMs = 60_000

interface Member {
  readonly holdfast: Promise<Holdfast>
  /** How many work with it now, or wait for it. */
  uses: number
  lastUsedAt: number
}

export interface DatabaseInfo {
  readonly server: string
  readonly now: Date
  readonly namespaces: readonly string[]
}

/** What the dashboard stands on: connections, opened when somebody comes, and members of the fleet, when a view needs one. */
export class DashboardContext {
  readonly viewContext: ViewContext
  readonly #pool: PgPool
  readonly #database: Database
  readonly #members = new Map<string, Member>()
  readonly #sql: Record<'database_info' | 'clock', Statement>
  #schemaCheck: Promise<void> | undefined
  /** What to add to our own clock. */
  #measuredOffset: { ms: number; readAt: number } | undefined
  #sweeper: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(given: { url: string } | { pool: PgPool }, schema: string, redact: Redact) {
    if ('pool' in given) {
      this.#pool = recordingPool(given.pool)
      this.#database = fromPgPool(this.#pool)
    } else {
      const connection = { connectionString: given.url }
      const own = new OwnPool(connection, { max: maxConnections, applicationName: 'holdfast dashboard' })
      this.#pool = recordingPool(own.pool)
      this.#database = fromPgPool(this.#pool, connection, own)
    }
    this.#sql = loadStatements(new URL('./dashboard-context.sql', import.meta.url), schema)
    const executor: Executor & Reader = {
      query: (text, values) => this.#database.query(text, values, queryTimeoutMs),
      read: (text, values) => this.#database.read(text, values, queryTimeoutMs),
    }
    const observer = new Observer(executor, schema)
    const audit = new Audit(executor, schema)
    this.viewContext = { executor, observer, audit, schema, redact, asMember: (...given) => this.#asMember(...given) }
  }

  /** Where the database is, for people. */
  get address(): string {
    return this.#database.address
  }

  /** Fails unless Holdfast is installed there, in a version that fits. */
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

  async databaseInfo(): Promise<DatabaseInfo> {
    await this.ready()
    const { text } = this.#sql.database_info
    const [row] = await this.viewContext.executor.read<{ server: string; now_ms: number; namespaces: string[] }>(text)
    const { server, now_ms: nowMs, namespaces } = row!
    return { server, now: new Date(nowMs), namespaces }
  }

  /** What our clock is behind the database's, in ms; asked for now and then. */
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
   * Whether the database answers at all, after it gave no answer to something. What answers next may be another server, with
   * another clock and another schema.
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
    if (this.#members.size >= maxMembers && longestIdle) void this.#closeMember(longestIdle.namespace)
    const { schema } = this.viewContext
    const pool = this.#pool
    const holdfast = withoutRecording(() => Holdfast.open({ pool, schema, namespace, anchor: 'none', migrate: false }))
    // It is used as long as it opens, so that it is still this one.
    holdfast.catch(() => this.#members.delete(namespace))
    const member = { holdfast, uses: 0, lastUsedAt: performance.now() }
    this.#members.set(namespace, member)
    this.#sweeper ??= setInterval(() => this.#closeIdleMembers(), memberIdleMs / 2).unref()
    return member
  }

  /** Those that nobody uses, the one first that nobody has needed for longest. */
  #idleMembers(): { readonly namespace: string; readonly lastUsedAt: number }[] {
    return [...this.#members]
      .filter(([, { uses }]) => uses === 0)
      .map(([namespace, { lastUsedAt }]) => ({ namespace, lastUsedAt: lastUsedAt }))
      .sort((a, b) => a.lastUsedAt - b.lastUsedAt)
  }

  #closeIdleMembers(): void {
    for (const { namespace, lastUsedAt } of this.#idleMembers()) {
      if (performance.now() - lastUsedAt > memberIdleMs) void this.#closeMember(namespace)
    }
  }

  async #closeMember(namespace: string): Promise<void> {
    const member = this.#members.get(namespace)
    this.#members.delete(namespace)
    // One that cannot close its row is forgotten by the fleet when it expires.
    await member?.holdfast.then((holdfast) => holdfast.close()).catch(() => {})
  }
}
