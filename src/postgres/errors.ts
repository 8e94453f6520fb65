import { formatDuration, HoldfastError, UsageError } from '../base/index.js'

/** An error that PostgreSQL answered with, for which there is no more telling class. `sqlstate` has its five letters. */
export class DatabaseError extends HoldfastError {
  readonly sqlstate: string

  constructor(
    message: string,
    sqlstate: string,
    details: { code?: string; retryable?: boolean; hint?: string; cause?: unknown } = {},
  ) {
    super(message, { code: 'DATABASE_ERROR', retryable: false, ...details })
    this.sqlstate = sqlstate
  }
}

/** The database cannot be reached, or went away in the middle. What was in flight may or may not have happened. */
export class DatabaseUnreachableError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super(message, {
      code: 'DATABASE_UNREACHABLE',
      retryable: true,
      hint: 'Check the address, that the server runs and that this machine may reach it.',
      cause,
    })
  }
}

/** The server, or this role or database on it, accepts no more connections (53300). */
export class TooManyConnectionsError extends HoldfastError {
  constructor(cause: unknown) {
    super(`The server accepts no more connections: ${(cause as Error).message}`, {
      code: 'TOO_MANY_CONNECTIONS',
      retryable: true,
      hint: 'Holdfast needs one connection per instance beside the pool: shrink pools, or raise max_connections.',
      cause,
    })
  }
}

/** The role lacks a right (42501). */
export class PermissionError extends HoldfastError {
  constructor(cause: unknown) {
    super(`The role lacks a right: ${(cause as Error).message}`, {
      code: 'PERMISSION_DENIED',
      retryable: false,
      hint: 'As the owner of the schema, run `holdfast migrate --application` with the name of this role; `holdfast doctor` prints the SQL.',
      cause,
    })
  }
}

/** Why the database takes no writes. `change` is the SQL that ends it, where SQL can. */
export type ReadOnlyReason =
  | { readonly reason: 'standby' }
  | { readonly reason: 'setting'; readonly origin: string; readonly change: string | undefined }

const standbyHint = 'Connect to the primary (target_session_attrs=read-write), or wait until the failover is over.'

/**
 * The database takes no writes (25006). `reason` says why: the server is a `standby`, or the `setting`
 * default_transaction_read_only is on. It is undefined where Holdfast could not find out.
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
    return `${standbyHint} If the server is no standby, look at default_transaction_read_only.`
  const change = why.change
    ? `run \`${why.change}\` and connect again.`
    : 'take the setting out of the address, or out of the options of the pool.'
  return `The setting protects the database, so Holdfast does not override it. If Holdfast may write there, ${change}`
}

/** Where a connection leads. */
export interface ConnectionTarget {
  /** Undefined where the driver chooses. */
  readonly user: string | undefined
  /** `host:port`; several are separated by commas. */
  readonly hosts: string
  readonly database: string | undefined
}

/**
 * PostgreSQL refused the login: wrong or missing password (28P01), a role that does not exist or has no entry in pg_hba.conf
 * (28000), or a database that does not exist (3D000). `sqlstate` says which.
 *
 * @example
 * if (error instanceof LoginRefusedError) console.error(error.message, error.hint)
 */
export class LoginRefusedError extends DatabaseError {
  constructor(message: string, sqlstate: keyof typeof loginHints, place: ConnectionTarget | undefined, cause: unknown) {
    super(message, sqlstate, {
      code: 'LOGIN_REFUSED',
      hint: [loginHints[sqlstate], targetHint(place)].join(' ').trim(),
      cause,
    })
  }
}

const loginHints = {
  '28P01': 'Check the password, and whether the role has one.',
  '28000': 'Check that the role exists, may log in, and has an entry in pg_hba.conf for this host and database.',
  '3D000': 'Create the database, or check its name.',
} as const

function targetHint(place: ConnectionTarget | undefined): string {
  if (!place) return ''
  const { user, hosts, database } = place
  const login = user ? `as user ${JSON.stringify(user)}` : 'as the default user'
  return `The login was to ${hosts}, ${login}, ${database ? `database ${JSON.stringify(database)}` : 'the default database'}.`
}

/** The server's lock table is full, for everybody on it (53200). */
export class LockTableFullError extends HoldfastError {
  /** How many locks the server was made for, all databases and all kinds together; undefined where it is not known. */
  readonly budget: number | undefined
  /** How many were in use when it was last counted. */
  readonly inUse: number | undefined

  constructor(message: string, facts: { budget?: number | undefined; inUse?: number | undefined; cause?: unknown }) {
    super(message, {
      code: 'LOCK_TABLE_FULL',
      retryable: true,
      hint: 'Hold fewer names at once (one name for the whole set, or leases), or raise max_locks_per_transaction and restart the server.',
      cause: facts.cause,
    })
    this.budget = facts.budget
    this.inUse = facts.inUse
  }
}

/** Waiting for locks in a circle; PostgreSQL chose this side to fail (40P01). */
export class DeadlockError extends HoldfastError {
  /** The circle, one line for each side: who waits for what, held by whom. */
  readonly cycle: readonly string[]

  constructor(cycle: readonly string[], cause?: unknown) {
    super(`Deadlock: ${cycle.join('; ')}`, {
      code: 'DEADLOCK',
      retryable: true,
      hint: 'Take the names in one call (an array is taken in one order by everybody), or always in the same order.',
      cause,
    })
    this.cycle = cycle
  }
}

/** The fence is older than another that was already used for the name: somebody else has taken over. */
export class StaleFenceError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super(message, {
      code: 'STALE_FENCE',
      retryable: false,
      hint: 'Stop this work and write nothing more: the name belongs to a later holder.',
      cause,
    })
  }
}

/** A session that stands in the way. */
export interface BlockingSession {
  readonly pid: number
  readonly program: string
  readonly state: string
  readonly for_ms: number
}

/** A migration did not get the locks that it needs; it changed nothing. It gives way to whoever works, again and again. */
export class MigrationBlockedError extends HoldfastError {
  /** Which migration. */
  readonly version: number
  /** The server process of the oldest transaction that uses the schema; undefined when none was left to be seen. */
  readonly pid: number | undefined

  constructor(
    { version, name }: { version: number; name: string },
    triedMs: number,
    holder: BlockingSession | undefined,
    cause: unknown,
  ) {
    const who = holder
      ? `: session ${holder.pid} (${holder.program}, ${holder.state}) has used its tables for ${formatDuration(holder.for_ms)}`
      : ''
    super(
      `Migration ${version} (${name}) did not get the locks that it needs within ${formatDuration(triedMs)}, and changed nothing${who}`,
      {
        code: 'MIGRATION_BLOCKED',
        retryable: true,
        hint: 'Wait until that transaction has ended, or end it, and migrate again. `holdfast doctor` lists long transactions.',
        cause,
      },
    )
    this.version = version
    this.pid = holder?.pid
  }
}

/** PostgreSQL refused a step of a migration; all of it was taken back. */
export class MigrationFailedError extends HoldfastError {
  /** Which migration. */
  readonly version: number

  constructor({ version, name }: { version: number; name: string }, cause: DatabaseError) {
    super(`Migration ${version} (${name}) failed, and changed nothing: ${cause.message}`, {
      code: 'MIGRATION_FAILED',
      retryable: cause.retryable,
      hint:
        cause.hint ??
        'Compare the schema with what this version expects: `holdfast doctor` lists what was changed by hand.',
      cause,
    })
    this.version = version
  }
}

/** The schema in the database and this version of Holdfast do not fit together. */
export class SchemaVersionError extends HoldfastError {
  readonly found: number
  readonly expected: number

  /** `functions`: the revision of the functions, if only those are outdated. */
  constructor(
    found: number,
    expected: number,
    schema: string,
    functions?: { readonly found: number; readonly expected: number },
  ) {
    const newer = !functions && found > expected
    const outdated = functions
      ? `The functions of the schema "${schema}" have revision ${functions.found}${functions.found === functions.expected ? ' with another text' : ''}`
      : `The schema "${schema}" has version ${found}`
    super(
      newer
        ? `The schema "${schema}" has version ${found}, newer than the ${expected} that this version of Holdfast knows`
        : `${outdated}, this version of Holdfast needs ${functions?.expected ?? expected}`,
      {
        code: newer ? 'SCHEMA_TOO_NEW' : 'SCHEMA_OUTDATED',
        retryable: false,
        hint: newer
          ? 'Upgrade the package holdfast in this process.'
          : 'Run `holdfast migrate`, or open with migrate: true.',
      },
    )
    this.found = found
    this.expected = expected
  }
}

/** Why session locks cannot be trusted on a connection. */
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
      'A pooler in transaction mode stands before the database: statements of one client run on different sessions, so a session lock protects nothing',
    hint: 'Give directUrl, an address that leads to PostgreSQL itself (or a session-mode port); or open with anchor: "none" and use leases and transaction locks.',
  },
  'read-replica': {
    message: 'The server is a read replica: locks taken there are seen by nobody else',
    hint: 'Connect to the primary (target_session_attrs=read-write).',
  },
  'locks-not-enforced': {
    message: 'The server says yes to a session lock that another session holds, as CockroachDB does',
    hint: 'Session locks cannot work there: open with anchor: "none" and use leases.',
  },
  'single-session': {
    message: 'All connections are one session of the server, as with PGlite, so a lock never excludes anybody',
    hint: 'Use a real PostgreSQL server, for example `holdfast dev`; or open with anchor: "none".',
  },
  'other-database': {
    message: 'directUrl leads to another server or database than url, so the two see different locks',
    hint: 'Both must reach the same database of the same server.',
  },
  'no-anchor': {
    message: 'This instance was opened with anchor: "none", so it has no session to hold locks on',
    hint: 'Open with an anchor (the default), or use leases, locks.inTransaction, and jobs with claims: "rows".',
  },
}

/** Session locks cannot be trusted here; `reason` says why and the hint names the way out. */
export class SessionLocksUnavailableError extends HoldfastError {
  readonly reason: UnavailableReason

  constructor(reason: UnavailableReason) {
    super(unavailableReasons[reason].message, {
      code: `SESSION_LOCKS_UNAVAILABLE`,
      retryable: false,
      hint: unavailableReasons[reason].hint,
    })
    this.reason = reason
  }
}

/** PostgreSQL older than Holdfast supports. */
export class UnsupportedServerError extends UsageError {}
