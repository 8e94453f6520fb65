import { HoldfastError } from '../base/index.js'
import {
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  LockTableFullError,
  PermissionError,
  ReadOnlyError,
  StaleFenceError,
  TooManyConnectionsError,
} from './errors.js'

/** What drivers put on the errors that PostgreSQL sent. */
export interface ServerError extends Error {
  code: string
  detail?: string
  hint?: string
}

/** The states that other files decide by. */
export const sqlstate = {
  lockNotAvailable: '55P03',
  checkViolation: '23514',
  queryCanceled: '57014',
  noActiveTransaction: '25P01',
  undefinedTable: '42P01',
  undefinedSchema: '3F000',
  serializationFailure: '40001',
  deadlockDetected: '40P01',
} as const

/** The one table from SQLSTATE to typed error. A state of five letters is looked up first, then its class of two. */
const table: Record<string, (error: ServerError) => HoldfastError> = {
  '25006': (error) => new ReadOnlyError(error),
  '25P03': (error) => unreachable('The session was ended for being idle in a transaction', error),
  '40P01': (error) => new DeadlockError((error.detail ?? error.message).split('\n'), error),
  '42501': (error) => new PermissionError(error),
  '53200': (error) => new LockTableFullError("The server's lock table is full", { cause: error }),
  '53300': (error) => new TooManyConnectionsError(error),
  '57P01': (error) => unreachable('The session was ended by an administrator', error),
  '57P02': (error) => unreachable('The server crashed', error),
  '57P03': (error) => unreachable('The server is starting up or shutting down', error),
  '57P05': (error) => unreachable('The session was ended for being idle', error),
  HF001: (error) => new StaleFenceError(error.message, error),
  '08': (error) => unreachable(error.message, error),
}

/** Every error of a driver, as a typed error of ours; ours pass through. */
export function translate(error: unknown): HoldfastError {
  if (error instanceof HoldfastError) return error
  if (!isServerError(error)) return unreachable(messageOf(error), error)
  const make = table[error.code] ?? table[error.code.slice(0, 2)]
  if (make) return make(error)
  return new DatabaseError(`${error.message} (SQLSTATE ${error.code})`, error.code, {
    retryable: ['40', '53', '55', '57'].includes(error.code.slice(0, 2)),
    ...(error.hint ? { hint: error.hint } : {}),
    cause: error,
  })
}

export function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && /^(?=.*\d)[0-9A-Z]{5}$/.test(String((error as { code?: unknown }).code))
}

/** The SQLSTATE behind an error of ours or of a driver. */
export function sqlstateOf(error: unknown): string | undefined {
  if (error instanceof DatabaseError) return error.sqlstate
  if (isServerError(error)) return error.code
  return error instanceof HoldfastError && error.cause ? sqlstateOf(error.cause) : undefined
}

function unreachable(message: string, cause: unknown) {
  return new DatabaseUnreachableError(`The database cannot be reached: ${message}`, cause)
}

// Node reports a host with several addresses as an AggregateError with an empty message.
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return messageOf(error.errors[0])
  return error instanceof Error ? error.message : String(error)
}
