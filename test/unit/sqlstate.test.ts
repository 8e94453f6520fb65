import { describe, expect, test } from 'vitest'
import {
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  IsolationLevelError,
  isServerError,
  LockTableFullError,
  LoginRefusedError,
  PermissionError,
  ReadOnlyError,
  StaleFenceError,
  sqlstateOf,
  TooManyConnectionsError,
  translate,
} from '../../src/postgres/index.js'

function serverError(code: string, fields: { message?: string; detail?: string; hint?: string } = {}): Error {
  const { message = 'the message of the server', ...rest } = fields
  return Object.assign(new Error(message), { code, ...rest })
}

function nodeError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

describe('SQLSTATE', () => {
  test.each([
    ['25006', ReadOnlyError, 'READ_ONLY', true, /primary/],
    ['40P01', DeadlockError, 'DEADLOCK', true, /same order/],
    ['42501', PermissionError, 'PERMISSION_DENIED', false, /holdfast migrate --application/],
    ['53200', LockTableFullError, 'LOCK_TABLE_FULL', true, /max_locks_per_transaction/],
    ['53300', TooManyConnectionsError, 'TOO_MANY_CONNECTIONS', true, /max_connections/],
    ['57P01', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server is running/],
    ['57P02', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server is running/],
    ['57P03', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server is running/],
    ['57P05', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server is running/],
    ['08006', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server is running/],
    ['08P01', DatabaseUnreachableError, 'DATABASE_UNREACHABLE', true, /server is running/],
    ['HF001', StaleFenceError, 'STALE_FENCE', false, /Another holder/],
    ['HF004', IsolationLevelError, 'ISOLATION_LEVEL', false, /begin isolation level read committed/],
  ])('%s becomes a %o with the code %s', (state, type, code, retryable, hint) => {
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
    ['22P02', false],
    ['40001', true],
    ['53100', true],
    ['55P03', true],
    ['57014', true],
  ])('%s becomes a DatabaseError whose property retryable is %s', (state, retryable) => {
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

describe('a refused login', () => {
  const connection = { connectionString: 'postgres://app:open-sesame@db.internal:6432/shop' }

  test.each([
    ['28P01', /^Check that the password/],
    ['28000', /pg_hba\.conf/],
    ['3D000', /^Create the database/],
  ])('the error for SQLSTATE %s names user, host, port and database, but not the password', (state, remedy) => {
    const error = translate(serverError(state, { message: 'no' }), connection)
    expect(error).toBeInstanceOf(LoginRefusedError)
    expect(error).toBeInstanceOf(DatabaseError)
    expect(error).toMatchObject({
      code: 'LOGIN_REFUSED',
      sqlstate: state,
      retryable: false,
      message: `no (SQLSTATE ${state})`,
      name: 'LoginRefusedError',
    })
    expect(error.hint).toMatch(remedy)
    expect(error.hint).toContain('Tried to connect to db.internal:6432, as user "app", database "shop".')
    expect(`${error.message} ${error.hint}`).not.toContain('open-sesame')
    expect(sqlstateOf(error)).toBe(state)
  })

  test('a missing password becomes LOGIN_REFUSED, not DATABASE_UNREACHABLE', () => {
    const cause = new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string')
    const error = translate(cause, { host: 'db.internal', user: 'app' })
    expect(error).toMatchObject({ code: 'LOGIN_REFUSED', sqlstate: '28P01', retryable: false, cause })
    expect(error.message).toContain('none was given')
    expect(error.hint).toContain('as user "app", database "app"')
  })
})

test('the error for a cancelled statement names statement_timeout', () => {
  const error = translate(serverError('57014', { message: 'canceling statement due to statement timeout' }))
  expect(error).toMatchObject({ code: 'DATABASE_ERROR', sqlstate: '57014', retryable: true })
  expect(error.hint).toContain('statement_timeout')
})

test('a DeadlockError lists the members of its cycle', () => {
  const detail =
    'Process 1 waits for ExclusiveLock; blocked by process 2.\nProcess 2 waits for it; blocked by process 1.'
  expect((translate(serverError('40P01', { detail })) as DeadlockError).cycle).toEqual(detail.split('\n'))
})

describe('an error that does not come from the server', () => {
  test.each([
    nodeError('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1'),
    nodeError('ECONNRESET', 'read ECONNRESET'),
    // This code has five letters, like an SQLSTATE.
    nodeError('EPIPE', 'write EPIPE'),
    nodeError('EPERM', 'connect EPERM'),
    new Error('Connection terminated unexpectedly'),
  ])('%s becomes a DatabaseUnreachableError', (cause) => {
    const error = translate(cause)
    expect(error).toBeInstanceOf(DatabaseUnreachableError)
    expect(error).toMatchObject({
      message: `The database cannot be reached: ${cause.message}`,
      retryable: true,
      cause,
    })
    expect(sqlstateOf(error)).toBeUndefined()
  })

  test('the error for a host with several addresses has the message of the first address', () => {
    const refused = nodeError('ECONNREFUSED', 'connect ECONNREFUSED ::1:5432')
    const both = Object.assign(new AggregateError([refused, new Error('other')]), { code: 'ECONNREFUSED' })
    expect(translate(both).message).toBe('The database cannot be reached: connect ECONNREFUSED ::1:5432')
  })

  test.each(['text', undefined, null, 42])('the thrown value %j becomes a DatabaseUnreachableError', (thrown) => {
    expect(translate(thrown)).toBeInstanceOf(DatabaseUnreachableError)
  })
})

test('translate returns a HoldfastError unchanged', () => {
  const ours = new ReadOnlyError(serverError('25006'))
  expect(translate(ours)).toBe(ours)
})

test('isServerError distinguishes SQLSTATEs from the five-letter codes of Node', () => {
  expect(isServerError(serverError('42P01'))).toBe(true)
  expect(isServerError(serverError('HF001'))).toBe(true)
  expect(isServerError(nodeError('EPIPE', ''))).toBe(false)
  expect(isServerError({ code: '42P01' })).toBe(false)
})
