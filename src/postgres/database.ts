/**
 * Runs one statement and answers with its rows: a pool, or a client inside somebody's transaction. JSON goes in as text
 * and is made JSON by the statement, `$1::text::jsonb`: a string given for a parameter of type jsonb is a document to
 * node-postgres, and to postgres.js a string to be encoded.
 */
export interface Executor {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/**
 * Runs one statement that only reads, however large its plan is: what looks at the fleet is given this and no `Executor`. Each
 * statement has a transaction of its own, without JIT, which would compile such a statement for seconds to run it for
 * milliseconds, and with nothing but pg_catalog in its search path. See `Database.read`.
 */
export interface Reader {
  read<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** How to reach a server, as `HostsClient` takes it, and for one host node-postgres; our own type, so that users need not install its types. */
export interface Connection {
  readonly connectionString?: string
  readonly host?: string
  readonly port?: number
  /** Several, of which one is the primary, in the place of `host` and `port`. */
  readonly hosts?: readonly { readonly host: string; readonly port: number }[]
  readonly user?: string
  readonly password?: string | (() => string | Promise<string>)
  readonly database?: string
  readonly ssl?: boolean | object
}

/** The whole of what Holdfast asks of a database: a pool of node-postgres stands behind it, the user's or our own. */
export interface Database extends Executor, Reader {
  /**
   * With `withinMs`, an answer that does not come within it is given up, and with it the connection, which may have fallen
   * silent: a `DatabaseUnreachableError`. What was asked for may still happen.
   */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /**
   * Reads in a transaction of its own, which costs two round trips more than `query`. With `withinMs` it is given up like a
   * query, and the server cancels it soon after.
   */
  read<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /** The same for a statement with a large plan that changes rows. */
  write<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /**
   * Runs `work` in one transaction on one connection: commits when it resolves, rolls back when it throws. With `withinMs`,
   * a beginning, commit or rollback that is not answered within it is given up like a query.
   */
  transaction<T>(work: (tx: Executor) => Promise<T>, withinMs?: number): Promise<T>
  /**
   * How to connect to the same place with a connection of our own. Sessions with a heartbeat always speak through
   * node-postgres: it alone says truthfully when a connection has died (see docs/decisions/0003-two-drivers.md).
   */
  readonly connection: Connection
  /** Where it leads, for people; never with a password. */
  readonly address: string
  /**
   * For whoever is closing: from now on, while answers fail to come, what has a `withinMs` is not waited for for long. The first
   * one that does not come is waited for its whole time.
   */
  shortenTimeouts(): void
  /** Closes what Holdfast opened itself; a pool that the user gave stays open. */
  close(): Promise<void>
}
