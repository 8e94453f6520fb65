import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { ClosedError, HoldfastError, UsageError } from '../../src/base/index.js'
import { LockLostError, LockTimeoutError, ReleaseRequestedError } from '../../src/locks/index.js'
import { SchemaVersionError, SessionLocksUnavailableError, type UnavailableReason } from '../../src/postgres/index.js'

test('every error is named after its class and is a HoldfastError', () => {
  const errors = [
    new UsageError('wrong', 'do it right'),
    new ClosedError('This instance'),
    new LockTimeoutError('invoice:42', 5_000),
    new LockLostError('invoice:42', 7, new Error('gone')),
    new ReleaseRequestedError('invoice:42'),
    new SchemaVersionError(2, 1, 'holdfast'),
  ]
  for (const error of errors) {
    expect(error).toBeInstanceOf(HoldfastError)
    expect(error.name).toBe(error.constructor.name)
    expect(`${error}`).toBe(`${error.name}: ${error.message}`)
    expect(error.code).toMatch(/^[A-Z_]+$/)
  }
})

test('a UsageError is not retryable and has a hint', () => {
  expect(new UsageError('wrong', 'do it right')).toMatchObject({ code: 'USAGE', retryable: false, hint: 'do it right' })
})

test('an error without a cause has no property "cause"', () => {
  expect('cause' in new UsageError('wrong')).toBe(false)
})

test('a LockTimeoutError names the lock and the duration of the wait', () => {
  const error = new LockTimeoutError('invoice:42', 5_040)
  expect(error).toMatchObject({ lock: 'invoice:42', waitedMs: 5_040, code: 'LOCK_TIMEOUT', retryable: true })
  expect(error.message).toBe('The lock "invoice:42" was still held by another holder after a wait of 5s')
  const holder = { name: 'worker-3', text: 'worker-3 (process 7 on web-1)', heldMs: 12_000 }
  const named = new LockTimeoutError('invoice:42', 5_040, holder)
  expect(named.holder).toBe('worker-3')
  expect(named.message).toBe(
    'The lock "invoice:42" was still held by worker-3 (process 7 on web-1) after a wait of 5s. The hold began 12s ago',
  )
})

test('a LockLostError names the lock, the fence and the reason', () => {
  const reason = new Error('the server restarted')
  const error = new LockLostError('invoice:42', 7, reason)
  expect(error).toMatchObject({ lock: 'invoice:42', fence: 7, code: 'LOCK_LOST', cause: reason })
  expect(error.message).toBe('"invoice:42" was lost: the server restarted')
})

test('a SchemaVersionError shows whether the schema or the package is too old', () => {
  expect(new SchemaVersionError(3, 2, 'app')).toMatchObject({
    code: 'SCHEMA_TOO_NEW',
    found: 3,
    expected: 2,
    hint: expect.stringContaining('Upgrade the holdfast package'),
  })
  expect(new SchemaVersionError(1, 2, 'app')).toMatchObject({
    code: 'SCHEMA_OUTDATED',
    hint: expect.stringContaining('holdfast migrate'),
  })
})

test.each<[UnavailableReason, RegExp]>([
  ['transaction-pooler', /directUrl/],
  ['read-replica', /primary/],
  ['locks-not-enforced', /leases/],
  ['single-session', /real PostgreSQL/],
  ['other-database', /same database/],
  ['no-anchor', /Open with an anchor/],
])('a SessionLocksUnavailableError with the reason %s has a hint with the remedy', (reason, remedy) => {
  const error = new SessionLocksUnavailableError(reason)
  expect(error).toMatchObject({ reason, code: 'SESSION_LOCKS_UNAVAILABLE', retryable: false })
  expect(error.hint).toMatch(remedy)
})

test('HoldfastErrorCode lists only codes that an error uses', async () => {
  const folder = new URL('../../src/', import.meta.url)
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.ts'))
  const source = (await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')))).join('\n')
  const [, listed] = /export type HoldfastErrorCode =\n((?: {2}\| '\w+'\n)+)/.exec(source)!
  const codes = listed!.match(/'\w+'/g)!
  expect(codes.length).toBeGreaterThan(50)
  expect(codes.filter((code) => source.split(code).length < 3)).toEqual([])
})
