import { causesOf, HoldfastError, isError, isInstance, memberOf, messageOf } from '../base/index.js'
import { targetOf } from './address.js'
import type { Connection } from './database.js'
import {
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  IsolationLevelError,
  LockTableFullError,
  LoginRefusedError,
  PermissionError,
  ReadOnlyError,
  StaleFenceError,
  TooManyConnectionsError,
} from './errors.js'

/** A server error, with the fields that drivers add. */
interface ServerError extends Error {
  code: string
  detail?: string
  hint?: string
}

/** SQLSTATEs that the code in other files checks for. */
export const sqlstate = {
  lockNotAvailable: '55P03',
  checkViolation: '23514',
  notReadCommitted: 'HF004',
  queryCanceled: '57014',
  noActiveTransaction: '25P01',
  undefinedTable: '42P01',
  undefinedFunction: '42883',
  internalError: 'XX000',
  undefinedSchema: '3F000',
  serializationFailure: '40001',
  deadlockDetected: '40P01',
} as const

/** Maps SQLSTATEs to error classes. The full state is looked up first, then its class (the first two characters). */
const errorTable: Record<string, (error: ServerError, connection?: Connection) => HoldfastError> = {
  '25006': (error) => new ReadOnlyError(error),
  '25P03': (error) => unreachableError('The session was ended because it was idle in a transaction', error),
  '28000': (error, connection) => loginRefusedError('28000', error, connection),
  '28P01': (error, connection) => loginRefusedError('28P01', error, connection),
  '3D000': (error, connection) => loginRefusedError('3D000', error, connection),
  '40P01': (error) => new DeadlockError((error.detail ?? error.message).split('\n'), error),
  '42501': (error) => new PermissionError(error),
  '53200': (error) => new LockTableFullError("The server's lock table is full", { cause: error }),
  '53300': (error) => new TooManyConnectionsError(error),
  // A standby rejects write-ahead log functions with this error, not with 25006.
  '55000': (error) =>
    error.message === 'recovery is in progress'
      ? new ReadOnlyError(error, { reason: 'standby' })
      : new DatabaseError(messageWithState(error), error.code, { retryable: true, ...hintOf(error), cause: error }),
  '57014': (error) =>
    new DatabaseError(messageWithState(error), error.code, {
      retryable: true,
      hint: error.hint ?? cancelledHint,
      cause: error,
    }),
  '57P01': (error) => unreachableError('The session was ended by an administrator', error),
  '57P02': (error) => unreachableError('The server crashed', error),
  '57P03': (error) => unreachableError('The server is starting up or shutting down', error),
  '57P05': (error) => unreachableError('The session was ended because it was idle', error),
  HF001: (error) => new StaleFenceError(error.message, error),
  HF002: (error) => new DatabaseError(error.message, error.code, { retryable: true, hint: error.hint!, cause: error }),
  HF004: (error) => new IsolationLevelError(error),
  '08': (error) => unreachableError(error.message, error),
}

const cancelledHint =
  'If no person or program cancelled the statement, the statement_timeout of the role, database or server is too short. `holdfast doctor` shows where the timeout is set.'

/**
 * Converts any driver error to a typed error. A `HoldfastError` is returned unchanged. `connection` is used for the
 * hint about a refused login.
 */
export function translate(error: unknown, connection?: Connection): HoldfastError {
  if (isInstance(error, HoldfastError)) return error
  if (!isServerError(error)) {
    if (needsPassword(error)) return loginRefusedError('28P01', error as Error, connection)
    return unreachableError(messageOf(error), error)
  }
  const make = errorTable[error.code] ?? errorTable[error.code.slice(0, 2)]
  if (make) return make(error, connection)
  return new DatabaseError(messageWithState(error), error.code, {
    retryable: ['40', '53', '55', '57'].includes(error.code.slice(0, 2)),
    ...hintOf(error),
    cause: error,
  })
}

export function isServerError(error: unknown): error is ServerError {
  const code = memberOf(error, 'code')
  return isError(error) && typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code)
}

/** Returns the SQLSTATE of a Holdfast error or a driver error. */
export function sqlstateOf(error: unknown): string | undefined {
  for (const one of causesOf(error)) {
    const state = memberOf(one, 'sqlstate')
    if (isInstance(one, DatabaseError) && typeof state === 'string') return state
    if (isServerError(one)) return one.code
    if (!isInstance(one, HoldfastError)) return undefined
  }
  return undefined
}

function hintOf({ hint }: ServerError): { hint?: string } {
  return hint ? { hint } : {}
}

function messageWithState(error: ServerError): string {
  return `${error.message} (SQLSTATE ${error.code})`
}

function loginRefusedError(state: '28000' | '28P01' | '3D000', error: Error, connection: Connection | undefined) {
  const message = isServerError(error)
    ? messageWithState(error)
    : `The server requires a password, but none was given (${error.message})`
  return new LoginRefusedError(message, state, connection && targetOf(connection), error)
}

/**
 * Returns whether the password is missing. node-postgres detects a missing password before it responds to the server, so its error has no
 * code.
 */
function needsPassword(error: unknown): boolean {
  return /^SASL: .*client password must be/.test(messageOf(error))
}

function unreachableError(message: string, cause: unknown) {
  return new DatabaseUnreachableError(`The database cannot be reached: ${message}`, cause)
}
