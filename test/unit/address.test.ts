import { afterEach, expect, test, vi } from 'vitest'
import { UsageError } from '../../src/base/index.js'
import { addressOf, checkUrl } from '../../src/postgres/index.js'

afterEach(() => vi.unstubAllEnvs())

test.each([
  'postgres://user:secret@host:5432/database',
  'postgresql://host/database',
  'postgres://host',
  'postgres://user:p%40ss@[::1]:5432/database?sslmode=require',
])('%s is an address', (url) => {
  expect(checkUrl(url, 'url')).toBe(url)
})

test.each([
  'mysql://user:secret@host/database',
  'user:secret@host/database',
  'postgres://user:sec ret:@:host:/database',
  'postgres://user:secret@host:port/database',
  'host=localhost password=secret',
  // A lone percent sign: the driver would fail on it much later, and with an error of no class.
  'postgres://user:100%secret@host/database',
  'postgres://us%er:secret@host/database',
  'postgres://user:secret@host/data%base',
])('%s is none, and is not repeated', (url) => {
  const complaint = () => checkUrl(url, 'directUrl')
  expect(complaint).toThrow(UsageError)
  expect(complaint).toThrow(`Expected directUrl to be a URL like postgres://user:password@host:5432/database`)
  expect(complaint).toThrow(expect.not.objectContaining({ message: expect.stringContaining('secret') }))
})

test.each([
  [{ connectionString: 'postgres://ann:secret@db.example:6432/app' }, 'ann@db.example:6432/app'],
  [{ connectionString: 'postgres://a%40b:secret@db.example/app' }, 'a@b@db.example:5432/app'],
  [{ host: 'db.example', user: 'ann', password: 'secret', database: 'app' }, 'ann@db.example:5432/app'],
  [{ host: 'db.example', port: 6432, user: 'ann' }, 'ann@db.example:6432/ann'],
])('%# is shown without its password', (connection, address) => {
  vi.stubEnv('PGPORT', undefined)
  vi.stubEnv('PGDATABASE', undefined)
  expect(addressOf(connection)).toBe(address)
})

test('what is not given comes from where the driver takes it', () => {
  vi.stubEnv('PGUSER', 'env-user')
  vi.stubEnv('PGHOST', 'env-host')
  vi.stubEnv('PGPORT', '6543')
  vi.stubEnv('PGDATABASE', 'env-database')
  expect(addressOf({})).toBe('env-user@env-host:6543/env-database')
})
