import { createHash } from 'node:crypto'
import pg from 'pg'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'

/** One statement of a session. Its text and its values may depend on the results of the session's earlier steps. */
export interface Step {
  readonly name: string
  readonly text: string | ((earlier: readonly Outcome[]) => string)
  readonly values?: readonly unknown[] | ((earlier: readonly Outcome[]) => readonly unknown[])
}

/** Result of a step. All starts and ends of steps are numbered in their order. */
export interface Outcome {
  readonly step: string
  readonly rows: readonly Record<string, unknown>[]
  readonly error: pg.DatabaseError | Error | undefined
  readonly startedAt: number
  readonly endedAt: number
}

/** No step of these tests takes longer, and no session waits for longer. */
const deadlineMs = 15_000
/** A session that waits for itself must find out soon. */
const settings = "set deadlock_timeout = '20ms'; set jit = off"

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'permutations' })
  // Tests end sessions on purpose. The next statement throws.
  client.on('error', () => {})
  await client.connect()
  await client.query(settings)
  return client
}

/** Each session plans each statement once, because planning would take most of the time. A list of statements cannot be prepared. */
function prepared(text: string, values: readonly unknown[]): pg.QueryConfig {
  if (text.includes(';')) return { text }
  return { text, values: values as unknown[], name: createHash('sha256').update(text).digest('hex').slice(0, 16) }
}

const pidOf = (client: pg.Client) => (client as unknown as { processID: number }).processID

/** A database session that runs the steps of one actor. */
export class Session {
  #client: pg.Client
  /** The step that PostgreSQL has not finished. */
  running: Promise<void> | undefined
  /** Whether the step has stopped between two statements of a function. */
  isPaused = false
  /** Number of the next place at which the session stops. */
  nextPause = 1
  outcomes: Outcome[] = []

  private constructor(
    readonly url: string,
    client: pg.Client,
  ) {
    this.#client = client
  }

  static async open(url: string): Promise<Session> {
    return new Session(url, await connect(url))
  }

  get pid(): number {
    return pidOf(this.#client)
  }

  /** Sends a step and does not wait for it. */
  start(step: Step, clock: () => number): void {
    const startedAt = clock()
    const { name, text, values = [] } = step
    const sql = typeof text === 'function' ? text(this.outcomes) : text
    const given = typeof values === 'function' ? values(this.outcomes) : values
    const end = (rows: readonly Record<string, unknown>[], error?: Error) => {
      this.outcomes.push({ step: name, rows, error, startedAt, endedAt: clock() })
      this.running = undefined
    }
    this.running = this.#client.query(prepared(sql, given)).then(
      ({ rows }) => end(rows),
      (error) => end([], error),
    )
  }

  /** Ends the transaction that a run has left open, and forgets the results. */
  async reset(): Promise<void> {
    this.outcomes = []
    this.nextPause = 1
    await this.#client.query(`rollback; set pause.number = 0`)
  }

  /** Makes the session stop at the places that `pauses.ts` adds to functions. */
  async pauseIn(slot: number): Promise<void> {
    await this.#client.query(`set pause.slot = ${slot}`)
  }

  /** Opens the session again, after the server has ended it. */
  async reconnect(): Promise<void> {
    await this.#client.end().catch(() => {})
    this.#client = await connect(this.url)
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => {})
  }
}

const transactionStatements = new Set<unknown>(['begin', 'commit', 'rollback'])

/** Live epochs, whose presence a separate session vouches for, and a dead one. */
export const [live, other, third, dead] = [1_001, 1_002, 1_003, 1_009]

/** A database with sessions that take turns. */
export class World {
  readonly sessions: Session[] = []
  #clock = 0

  private constructor(
    readonly database: FreshDatabase,
    /** Session that sees who waits for whom, and prepares and checks the tables. */
    readonly observer: pg.Client,
    readonly presence: pg.Client,
    /** Session that holds the locks at which the functions stop. */
    readonly gate: pg.Client,
  ) {}

  get gatePid(): number {
    return pidOf(this.gate)
  }

  static async open(): Promise<World> {
    const database = await freshDatabase()
    const [observer, presence, gate] = await Promise.all([1, 2, 3].map(() => connect(database.url)))
    // Begins the generation of the server, so that no statement does it in between.
    await observer!.query('select holdfast.grace_is_over()')
    await presence!.query(
      'select pg_advisory_lock(holdfast.session_class(), number) from unnest($1::integer[]) as number',
      [[live, other, third]],
    )
    return new World(database, observer!, presence!, gate!)
  }

  async query<Row = Record<string, unknown>>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return (await this.observer.query(prepared(text, values))).rows
  }

  /** Runs a step that does not depend on earlier steps, outside of the orders. */
  run<Row = Record<string, unknown>>({ text, values }: Step): Promise<Row[]> {
    return this.query<Row>(text as string, values as readonly unknown[])
  }

  /** Deletes all rows of the tables, in one statement. */
  async empty(tables: readonly string[]): Promise<void> {
    const deletes = tables.map((table, at) => `t${at} as (delete from ${table})`)
    await this.query(`with ${deletes.join(', ')} select`)
  }

  /** Number of rows of each table of the schema. */
  async rowCounts(): Promise<Record<string, number>> {
    const rows = await this.query<{ name: string; count: number }>(
      `select relname as name, (xpath('//count/text()', query_to_xml(format('select count(*) from holdfast.%I', relname), false, true, '')))[1]::text::integer as count
       from pg_class
       where relnamespace = 'holdfast'::regnamespace
         and relkind in ('r', 'p')
       order by relname`,
    )
    return Object.fromEntries(rows.map(({ name, count }) => [name, count]))
  }

  async openSessions(count: number): Promise<void> {
    while (this.sessions.length < count) this.sessions.push(await Session.open(this.database.url))
  }

  /** Starts a step, and waits until each session has finished its step or waits for a session that rests. */
  async perform(session: Session, step: Step): Promise<void> {
    session.start(step, () => ++this.#clock)
    // These statements never wait, so no look for waits is necessary.
    if (transactionStatements.has(step.text)) await session.running
    await this.rest()
  }

  /** Like `perform`, but PostgreSQL receives a cancel request together with the step. */
  async performAndCancel(session: Session, step: Step): Promise<void> {
    session.start(step, () => ++this.#clock)
    await this.query('select pg_cancel_backend($1)', [session.pid])
    await this.rest()
  }

  /** Cancels the step of a session that waits for another one. */
  async cancel(session: Session): Promise<void> {
    await this.query('select pg_cancel_backend($1)', [session.pid])
    // The session waits until it has handled the request, so a look could find it at rest.
    await session.running
    await this.rest()
  }

  /** Ends a session, as a crash of its process does, and opens it again. Its transaction is rolled back before this function returns. */
  async terminate(session: Session): Promise<void> {
    await this.query('select pg_terminate_backend($1, $2)', [session.pid, deadlineMs])
    await session.running
    await session.reconnect()
    await this.rest()
  }

  /**
   * Waits until no session makes progress. This is exact: PostgreSQL names the sessions that block a session, and a session that waits for one
   * that has no statement in progress cannot continue before that one gets its next step.
   */
  async rest(): Promise<void> {
    const deadline = performance.now() + deadlineMs
    for (;;) {
      const running = this.sessions.filter((session) => session.running !== undefined)
      for (const session of this.sessions) session.isPaused = false
      if (running.length === 0) return
      const looked = this.#blockersOf(running)
      await Promise.race([Promise.all(running.map((session) => session.running)), looked])
      if (running.every((session) => session.running === undefined)) {
        await looked
        return
      }
      const blockers = await looked
      // What the look saw counts only if no session has finished meanwhile.
      if (running.every((session) => session.running !== undefined) && isAtRest(running, blockers)) {
        for (const session of running) session.isPaused = blockers.get(session.pid)!.includes(this.gatePid)
        return
      }
      if (performance.now() > deadline) {
        throw new Error(`A step neither ended nor waited for another session within ${deadlineMs} ms`)
      }
    }
  }

  async #blockersOf(running: readonly Session[]): Promise<Map<number, number[]>> {
    const pids = running.map(({ pid }) => pid)
    const rows = await this.query<{ pid: number; blockers: number[] }>(
      'select pid, pg_blocking_pids(pid) as blockers from unnest($1::integer[]) as pid',
      [pids],
    )
    const known = new Set([this.gatePid, ...this.sessions.map(({ pid }) => pid)])
    // Another process of the server, such as autovacuum, ends by itself. Until then, the session makes progress.
    return new Map(rows.map(({ pid, blockers }) => [pid, blockers.every((one) => known.has(one)) ? blockers : []]))
  }

  async close(): Promise<void> {
    await Promise.all(
      [this.observer, this.presence, this.gate, ...this.sessions].map((one) =>
        'end' in one ? one.end() : one.close(),
      ),
    )
    await this.database.drop()
  }
}

/** Whether each running session waits, directly or through others, for a session without a statement in progress. */
function isAtRest(running: readonly Session[], blockers: ReadonlyMap<number, readonly number[]>): boolean {
  const waits = new Set(running.map(({ pid }) => pid))
  for (let before = -1; before !== waits.size; ) {
    before = waits.size
    for (const pid of waits) {
      if (blockers.get(pid)!.some((blocker) => !waits.has(blocker))) waits.delete(pid)
    }
  }
  return waits.size === 0
}
