import { describe, expect, test } from 'vitest'
import {
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  isServerError,
  LockTableFullError,
  PermissionError,
  ReadOnlyError,
  StaleFenceError,
  sqlstateOf,
  TooManyConnectionsError,
  translate,
} from '../../src/postgres/index.js'

function serverError(code: string, facts: { message?: string; detail?: string; hint?: string } = {}): Error {
  const { message = 'as the server said it', ...rest } = facts
  return Object.assign(new Error(message), { code, ...rest })
}

function nodeError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

describe('each SQLSTATE', () => {
  test.each([
    ['25006', ReadOnlyError, 'READ_ONLY', true, /primary/],
    ['40P01', DeadlockError, 'DEADLOCK', true, /same order/],
    ['42501', PermissionError, 'PERMISSION_DENIED', false, /holdfast migrate --application/],
    ['53200', LockTableFullError, 'LOCK_TABLE_FULL', true, /max_locks_per_transaction/],
    ['53300', TooManyConnectionsError, 'TOO_MANY_CONNECTIONS', true, /max_connections/],
    ['57P01', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server runs/],
    ['57P02', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server runs/],
    ['57P03', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server runs/],
    ['57P05', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server runs/],
    ['08006', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server runs/],
    ['08P01', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server runs/],
    ['HF001', StaleFenceError, 'STALE_FENCE', false, /later holder/],
  ])('%s is a %o with the code %s', (state, type, code, retryable, hint) => {
    const cause = serverError(state)
    const error = translate(cause)
    expect(error).toBeInstanceOf(type)
    expect(error).toMatchObject({ code, retryable, cause, name: type.name })
    expect(error.hint).toMatch(hint)
    expect(sqlstateOf(error)).toBe(state)
  })

  test.each([
    ['42601', false],
    ['23505', false],
    ['28P01', false],
    ['3D000', false],
    ['40001', true],
    ['53100', true],
    ['55P03', true],
    ['57014', true],
  ])('%s has no class of its own; retryable is %s', (state, retryable) => {
    const error = translate(serverError(state, { message: 'no such thing', hint: 'Try another.' }))
    expect(error).toBeInstanceOf(DatabaseError)
    expect(error).toMatchObject({
      code: 'DATABASE_ERROR',
      sqlstate: state,
      retryable,
      hint: 'Try another.',
      message: `no such thing (SQLSTATE ${state})`,
    })
  })
})

test('a deadlock tells its circle, side by side', () => {
  const detail =
    'Process 1 waits for ExclusiveLock; blocked by process 2.\nProcess 2 waits for it; blocked by process 1.'
  expect((translate(serverError('40P01', { detail })) as DeadlockError).cycle).toEqual(detail.split('\n'))
})

describe('what Node says, and no server', () => {
  test.each([
    nodeError('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1'),
    nodeError('ECONNRESET', 'read ECONNRESET'),
    // Five letters, like an SQLSTATE.
    nodeError('EPIPE', 'write EPIPE'),
    nodeError('EPERM', 'connect EPERM'),
    new Error('Connection terminated unexpectedly'),
  ])('%s means that the database cannot be reached', (cause) => {
    const error = translate(cause)
    expect(error).toBeInstanceOf(DatabaseUnreachableError)
    expect(error).toMatchObject({
      message: `The database cannot be reached: ${cause.message}`,
      retryable: true,
      cause,
    })
    expect(sqlstateOf(error)).toBeUndefined()
  })

  test('a host with several addresses says what the first of them said', () => {
    const refused = nodeError('ECONNREFUSED', 'connect ECONNREFUSED ::1:5432')
    const both = Object.assign(new AggregateError([refused, new Error('other')]), { code: 'ECONNREFUSED' })
    expect(translate(both).message).toBe('The database cannot be reached: connect ECONNREFUSED ::1:5432')
  })

  test.each(['text', undefined, null, 42])('even %j becomes an error of ours', (thrown) => {
    expect(translate(thrown)).toBeInstanceOf(DatabaseUnreachableError)
  })
})

test('errors of ours pass through', () => {
  const ours = new ReadOnlyError(serverError('25006'))
  expect(translate(ours)).toBe(ours)
})

test('tells the five letters of PostgreSQL from those of Node', () => {
  expect(isServerError(serverError('42P01'))).toBe(true)
  expect(isServerError(serverError('HF001'))).toBe(true)
  expect(isServerError(nodeError('EPIPE', ''))).toBe(false)
  expect(isServerError({ code: '42P01' })).toBe(false)
})
