/**
 * Runs one statement on a pool, or on a client inside a transaction, and returns the rows. Statements receive JSON as text and cast it
 * (`$1::text::jsonb`), because the drivers treat jsonb parameters differently. node-postgres sends a string as a JSON document. postgres.js
 * encodes the string as a JSON string.
 */
export interface Executor {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/**
 * Runs one read-only statement. Code that observes the fleet receives a `Reader` instead of an `Executor`. Each statement has its own
 * snapshot, only pg_catalog in its search path, and no JIT, which would compile a large plan for seconds.
 */
export interface Reader {
  read<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** Connection settings for `HostsClient`. This is a separate type, so that users need not install the node-postgres types. */
export interface Connection {
  readonly connectionString?: string
  readonly host?: string
  readonly port?: number
  /** Several hosts, which include the primary. Replaces `host` and `port`. */
  readonly hosts?: readonly { readonly host: string; readonly port: number }[]
  readonly user?: string
  readonly password?: string | (() => string | Promise<string>)
  readonly database?: string
  readonly ssl?: boolean | object
}

/** Everything that Holdfast needs from a database. The implementation uses a node-postgres pool that belongs to the user or to Holdfast. */
export interface Database extends Executor, Reader {
  /**
   * Runs one statement. If there is no response within `withinMs`, throws a `DatabaseUnreachableError` and discards the connection, which
   * may be dead. The statement may still be executed.
   */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /**
   * Runs a read-only statement in its own transaction, which costs two more round trips than `query`, or alone on a session of the pool's
   * own readers. The server cancels the statement soon after `withinMs`.
   */
  read<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /**
   * Runs a statement that changes rows, in the same way as `read`. The isolation level is READ COMMITTED, so a function
   * that waits for a lock can then see what the lock's previous owner has committed.
   */
  write<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], withinMs?: number): Promise<Row[]>
  /**
   * Runs `work` in one transaction at the READ COMMITTED isolation level. `withinMs` is the timeout for each of
   * `begin`, `commit` and `rollback`. `first` is SQL without parameters that is sent together with `begin`. `work`
   * receives the rows of its last statement.
   */
  transaction<T>(
    work: (tx: Executor, firstRows: readonly unknown[]) => Promise<T>,
    withinMs?: number,
    first?: string,
  ): Promise<T>
  /**
   * Connection settings for additional connections to the same database. Sessions with a heartbeat always use node-postgres, because only
   * node-postgres reports reliably that a connection has died (see docs/decisions/0003-two-drivers.md).
   */
  readonly connection: Connection
  /**
   * Whether the user's pool has one connection, and no settings for others. This is the case for PGlite, which runs in the process of its
   * only client.
   */
  readonly hasOneConnection: boolean
  /** Human-readable target of the connection, without the password. */
  readonly address: string
  /**
   * Makes `query` prepare the statements that are marked for it (see `loadStatements`). Call this method only if each connection keeps its
   * session, because a transaction pooler would send the calls to other sessions.
   */
  prepareStatements(): void
  /** Shortens `withinMs` while the database does not respond, so that closing does not wait for each statement. */
  shortenTimeouts(): void
  /** Closes the pools that Holdfast opened. The user's pool stays open. */
  close(): Promise<void>
}
