import { formatDuration, HoldfastError, type HoldfastErrorCode, UsageError } from '../base/index.js'

/** Thrown if PostgreSQL reports an error for which there is no more specific class. The field `sqlstate` contains the SQLSTATE. */
export class DatabaseError extends HoldfastError {
  readonly sqlstate: string

  constructor(
    message: string,
    sqlstate: string,
    details: { code?: HoldfastErrorCode; retryable?: boolean; hint?: string; cause?: unknown } = {},
  ) {
    super(message, { code: 'DATABASE_ERROR', retryable: false, ...details })
    this.sqlstate = sqlstate
  }
}

/**
 * Thrown if the database cannot be reached, if the connection broke, or if the server did not respond in time. A statement in flight may or
 * may not have been executed.
 */
export class DatabaseUnreachableError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super(message, {
      code: 'DATABASE_UNREACHABLE',
      retryable: true,
      hint: 'Check that the address is correct, that the server is running, and that this machine can reach the server.',
      cause,
    })
  }
}

/** Thrown if the server, the role or the database has reached its connection limit (53300). */
export class TooManyConnectionsError extends HoldfastError {
  constructor(cause: unknown) {
    super(`The server accepts no more connections: ${(cause as Error).message}`, {
      code: 'TOO_MANY_CONNECTIONS',
      retryable: true,
      hint: 'Holdfast needs one connection for each instance in addition to the pool. Use smaller pools, or increase max_connections.',
      cause,
    })
  }
}

/** Thrown if the database role lacks a privilege (42501). */
export class PermissionError extends HoldfastError {
  constructor(cause: unknown) {
    super(`The role lacks a privilege: ${(cause as Error).message}`, {
      code: 'PERMISSION_DENIED',
      retryable: false,
      hint: "Run `holdfast migrate --application <role>` as the schema's owner. `holdfast doctor` prints the required SQL.",
      cause,
    })
  }
}

/**
 * Reason why the database accepts no writes. `change` is the SQL that fixes the problem. `change` is undefined if SQL cannot fix the
 * problem.
 */
export type ReadOnlyReason =
  | { readonly reason: 'standby' }
  | { readonly reason: 'setting'; readonly origin: string; readonly change: string | undefined }

const standbyHint = 'Connect to the primary (target_session_attrs=read-write), or wait until the failover is complete.'

/**
 * Thrown if the database accepts no writes (25006). `reason` is `standby` if the server is a standby, and `setting` if default_transaction_read_only
 * is on. `reason` is undefined if Holdfast could not determine the cause.
 *
 * @example
 * if (error instanceof ReadOnlyError && error.reason === 'setting') console.error(error.hint)
 */
export class ReadOnlyError extends HoldfastError {
  readonly reason: 'standby' | 'setting' | undefined

  constructor(cause: unknown, why?: ReadOnlyReason) {
    super(readOnlyMessage(why), { code: 'READ_ONLY', retryable: true, hint: readOnlyHint(why), cause })
    this.reason = why?.reason
  }
}

function readOnlyMessage(why: ReadOnlyReason | undefined): string {
  if (why?.reason === 'standby') return 'The database is read-only: the server is a standby'
  if (why?.reason === 'setting') {
    return `The database is read-only: default_transaction_read_only is on, ${why.origin}`
  }
  return 'The database is read-only'
}

function readOnlyHint(why: ReadOnlyReason | undefined): string {
  if (why?.reason === 'standby') return standbyHint
  if (why?.reason !== 'setting')
    return `${standbyHint} If the server is not a standby, check default_transaction_read_only.`
  const change = why.change
    ? `run \`${why.change}\` and connect again.`
    : 'remove the setting from the URL or from the pool options.'
  return `The setting protects the database, so Holdfast does not override it. If Holdfast should write to this database, ${change}`
}

export interface ConnectionTarget {
  /** Database user. Undefined if the driver chooses the user. */
  readonly user: string | undefined
  /** Host and port as `host:port`. Several hosts are separated by commas. */
  readonly hosts: string
  readonly database: string | undefined
}

/**
 * Thrown if PostgreSQL refused the login. `sqlstate` shows the reason: a wrong or missing password (28P01), a role that does not exist or has no
 * entry in pg_hba.conf (28000), or a database that does not exist (3D000).
 *
 * @example
 * if (error instanceof LoginRefusedError) console.error(error.message, error.hint)
 */
export class LoginRefusedError extends DatabaseError {
  constructor(
    message: string,
    sqlstate: '28000' | '28P01' | '3D000',
    place: ConnectionTarget | undefined,
    cause: unknown,
  ) {
    super(message, sqlstate, {
      code: 'LOGIN_REFUSED',
      hint: [loginHints[sqlstate], targetHint(place)].join(' ').trim(),
      cause,
    })
  }
}

const loginHints = {
  '28P01': 'Check that the password is correct and that the role has a password.',
  '28000': 'Check that the role exists, may log in, and has an entry in pg_hba.conf for this host and database.',
  '3D000': 'Create the database, or check its name.',
} as const

function targetHint(place: ConnectionTarget | undefined): string {
  if (!place) return ''
  const { user, hosts, database } = place
  const login = user ? `as user ${JSON.stringify(user)}` : 'as the default user'
  return `Tried to connect to ${hosts}, ${login}, ${database ? `database ${JSON.stringify(database)}` : 'the default database'}.`
}

/** Thrown if the server's lock table, which all databases share, is full (53200). */
export class LockTableFullError extends HoldfastError {
  /** Capacity of the lock table, for all kinds of locks. Undefined if the capacity is unknown. */
  readonly budget: number | undefined
  /** Number of locks at the last count. */
  readonly inUse: number | undefined

  constructor(message: string, facts: { budget?: number | undefined; inUse?: number | undefined; cause?: unknown }) {
    super(message, {
      code: 'LOCK_TABLE_FULL',
      retryable: true,
      hint: 'Hold fewer locks at the same time (use leases, or one name for a whole set), or increase max_locks_per_transaction and restart the server.',
      cause: facts.cause,
    })
    this.budget = facts.budget
    this.inUse = facts.inUse
  }
}

/**
 * Thrown if several calls were waiting for each other's locks (a deadlock). PostgreSQL (40P01) or Holdfast resolved the deadlock by failing
 * this call.
 */
export class DeadlockError extends HoldfastError {
  /** The waits in the cycle, one line for each wait. */
  readonly cycle: readonly string[]

  constructor(cycle: readonly string[], cause?: unknown) {
    super(`Deadlock: ${cycle.join('; ')}`, {
      code: 'DEADLOCK',
      retryable: true,
      hint: 'Always acquire the names in the same order, or pass them to a single call as an array: Holdfast locks the names of an array in a fixed order.',
      cause,
    })
    this.cycle = cycle
  }
}

/** Thrown if a larger fencing token was already used for the name, because another holder has taken over. */
export class StaleFenceError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super(message, {
      code: 'STALE_FENCE',
      retryable: false,
      hint: 'Stop this work and write nothing more. Another holder has acquired the name in the meantime.',
      cause,
    })
  }
}

/**
 * Thrown if a transaction that you or your library has opened has a higher isolation level than READ COMMITTED. A
 * transaction at a higher level would not show that another worker has taken over the job.
 */
export class IsolationLevelError extends DatabaseError {
  constructor(cause: unknown) {
    super((cause as Error).message, 'HF004', {
      code: 'ISOLATION_LEVEL',
      hint: "Begin this transaction at the READ COMMITTED isolation level: with `begin isolation level read committed`, or with your library's option for the level.",
      cause,
    })
  }
}

export interface BlockingSession {
  readonly pid: number
  readonly program: string
  readonly state: string
  readonly forMs: number
}

/**
 * Thrown if a migration could not acquire its table locks in time, because it gives way to other transactions. The migration changed
 * nothing.
 */
export class MigrationBlockedError extends HoldfastError {
  /** Version of the migration. */
  readonly version: number
  /** The server process of the oldest transaction that uses the schema. Undefined if no such transaction was found after the failure. */
  readonly pid: number | undefined

  constructor(
    { version, name }: { version: number; name: string },
    triedMs: number,
    holder: BlockingSession | undefined,
    cause: unknown,
  ) {
    const blocker = holder
      ? `: session ${holder.pid} (${holder.program}, ${holder.state}) has been using the tables for ${formatDuration(holder.forMs)}`
      : ''
    super(
      `Migration ${version} (${name}) could not lock its tables within ${formatDuration(triedMs)} and changed nothing${blocker}`,
      {
        code: 'MIGRATION_BLOCKED',
        retryable: true,
        hint: 'Wait until the blocking transaction has ended, or end it. Then migrate again. `holdfast doctor` lists long transactions.',
        cause,
      },
    )
    this.version = version
    this.pid = holder?.pid
  }
}

/** Thrown if PostgreSQL rejected a step of a migration. The whole migration was rolled back. */
export class MigrationFailedError extends HoldfastError {
  /** Version of the migration. */
  readonly version: number

  constructor({ version, name }: { version: number; name: string }, cause: DatabaseError) {
    super(`Migration ${version} (${name}) failed and changed nothing: ${cause.message}`, {
      code: 'MIGRATION_FAILED',
      retryable: cause.retryable,
      hint: cause.hint ?? 'Run `holdfast doctor`, which lists manual changes to the schema.',
      cause,
    })
    this.version = version
  }
}

/** Thrown if this version of Holdfast cannot work with the schema in the database. */
export class SchemaVersionError extends HoldfastError {
  readonly found: number
  readonly expected: number

  /** `functions` contains the functions' revision if only the functions are outdated. */
  constructor(
    found: number,
    expected: number,
    schema: string,
    functions?: { readonly found: number; readonly expected: number },
  ) {
    const newer = !functions && found > expected
    const isMissing = !functions && found === 0
    const outdated = functions
      ? `The functions in the schema "${schema}" have revision ${functions.found}${functions.found === functions.expected ? ' with different text' : ''}`
      : `The schema "${schema}" is at version ${found}`
    super(
      newer
        ? `The schema "${schema}" is at version ${found}, but this version of Holdfast supports only schema versions up to ${expected}`
        : isMissing
          ? `Holdfast is not installed in the schema "${schema}" of this database`
          : `${outdated}, but this version of Holdfast requires ${functions ? `revision ${functions.expected}` : `schema version ${expected}`}`,
      {
        code: newer ? 'SCHEMA_TOO_NEW' : 'SCHEMA_OUTDATED',
        retryable: false,
        hint: newer
          ? 'Upgrade the holdfast package that this process uses.'
          : 'Run `holdfast migrate`, or open with migrate: true.',
      },
    )
    this.found = found
    this.expected = expected
  }
}

/** Reason why session locks do not work on a connection. */
export type UnavailableReason =
  | 'transaction-pooler'
  | 'read-replica'
  | 'locks-not-enforced'
  | 'single-session'
  | 'other-database'
  | 'no-anchor'

const unavailableReasons: Record<UnavailableReason, { message: string; hint: string }> = {
  'transaction-pooler': {
    message:
      'The connection uses a pooler in transaction mode: the statements of one client run on different sessions, so session locks do not work',
    hint: 'Set directUrl to the address of PostgreSQL itself or of a pooler in session mode. Or open with anchor: "none", and use leases and transaction locks.',
  },
  'read-replica': {
    message: 'The server is a read replica, and locks on a replica are not visible to other servers',
    hint: 'Connect to the primary (target_session_attrs=read-write).',
  },
  'locks-not-enforced': {
    message: 'The server grants session locks that another session already holds, as CockroachDB does',
    hint: 'Session locks do not work on this server. Open with anchor: "none" and use leases.',
  },
  'single-session': {
    message: 'All connections share one server session, as with PGlite, so a lock does not exclude other connections',
    hint: 'Use a real PostgreSQL server (`holdfast dev` starts one), or open with anchor: "none".',
  },
  'other-database': {
    message: 'directUrl and url point to different servers or databases, so their locks do not exclude each other',
    hint: 'Set both to the same database of the same server.',
  },
  'no-anchor': {
    message: 'This instance was opened with anchor: "none", so it has no session that can hold locks',
    hint: 'Open with an anchor (the default), or use leases, locks.inTransaction, and jobs.',
  },
}

/** Thrown if session locks do not work on this server or through this connection. */
export class SessionLocksUnavailableError extends HoldfastError {
  readonly reason: UnavailableReason

  constructor(reason: UnavailableReason) {
    super(unavailableReasons[reason].message, {
      code: 'SESSION_LOCKS_UNAVAILABLE',
      retryable: false,
      hint: unavailableReasons[reason].hint,
    })
    this.reason = reason
  }
}

/** Thrown if the PostgreSQL server is older than the oldest version that Holdfast supports. */
export class UnsupportedServerError extends UsageError {}
