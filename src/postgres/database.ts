/**
 * Runs one statement and returns its rows: a pool, or a client inside a transaction. Statements receive JSON as text and cast it
 * (`$1::text::jsonb`), because for a parameter of type jsonb the drivers differ: node-postgres sends a string as a document,
 * postgres.js encodes the string.
 */
export interface Executor {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/**
 * Runs one read-only statement. Code that observes the fleet receives a `Reader` and no `Executor`. Each statement runs in its own
 * transaction, with only pg_catalog in its search path, and without JIT, which would compile a large plan for seconds.
 */
export interface Reader {
  read<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** Connection settings for `HostsClient`. An own type, so that users need not install the types of node-postgres. */
export interface Connection {
  readonly connectionString?: string
  readonly host?: string
  readonly port?: number
  /** Several hosts, one of which is the primary. Replaces `host` and `port`. */
  readonly hosts?: readonly { readonly host: string; readonly port: number }[]
  readonly user?: string
  readonly password?: string | (() => string | Promise<string>)
  readonly database?: string
  readonly ssl?: boolean | object
}

/** Everything that Holdfast needs from a database. The implementation uses a pool of node-postgres, of the user or of Holdfast. */
export interface Database extends Executor, Reader {
  /**
   * If there is no response within `withinMs`, throws a `DatabaseUnreachableError` and discards the connection, which may be dead. The
   * statement may still be executed.
   */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /** Reads in its own transaction, which costs two more round trips than `query`. The server cancels it soon after `withinMs`. */
  read<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /** Like `read`, for a statement that changes rows. */
  write<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /** Runs `work` in one transaction. `withinMs` limits `begin`, `commit` and `rollback`, each like a query. */
  transaction<T>(work: (tx: Executor) => Promise<T>, withinMs?: number): Promise<T>
  /**
   * Connection settings for further connections to the same database. Sessions with a heartbeat always use node-postgres, because only
   * node-postgres reports reliably that a connection has died (see docs/decisions/0003-two-drivers.md).
   */
  readonly connection: Connection
  /** Target of the connection for people, without the password. */
  readonly address: string
  /** Shortens `withinMs` while the database does not respond, so that closing does not wait for each statement. */
  shortenTimeouts(): void
  /** Closes the pools that Holdfast opened. A pool of the user stays open. */
  close(): Promise<void>
}
