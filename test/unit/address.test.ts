import { afterEach, expect, test, vi } from 'vitest'
import { UsageError } from '../../src/base/index.js'
import { addressOf, checkUrl, urlsOf } from '../../src/postgres/index.js'

afterEach(() => vi.unstubAllEnvs())

test.each([
  'postgres://user:secret@host:5432/database',
  'postgresql://host/database',
  'postgres://host',
  'postgres://user:p%40ss@[::1]:5432/database?sslmode=require',
  'postgres://user:secret@one,two:5433,[::1]:5434/database',
  'postgres://user:sec,ret@one:5432,two/database?target_session_attrs=primary',
])('checkUrl accepts %s', (url) => {
  expect(checkUrl(url, 'url')).toBe(url)
})

test.each([
  'mysql://user:secret@host/database',
  'user:secret@host/database',
  'postgres://user:sec ret:@:host:/database',
  'postgres://user:secret@host:port/database',
  'host=localhost password=secret',
  // The driver would fail on an unescaped percent sign much later, with an untyped error.
  'postgres://user:100%secret@host/database',
  'postgres://us%er:secret@host/database',
  'postgres://user:secret@host/data%base',
  'postgres://user:secret@one,,two/database',
  'postgres://one,/database',
  'postgres://user:secret@one,two:port/database',
])('checkUrl refuses %s without repeating the password', (url) => {
  const complaint = () => checkUrl(url, 'directUrl')
  expect(complaint).toThrow(UsageError)
  expect(complaint).toThrow(`Expected directUrl to be a URL like postgres://user:password@host:5432/database`)
  expect(complaint).toThrow(expect.not.objectContaining({ message: expect.stringContaining('secret') }))
})

test.each(['any', 'standby', 'read-only', 'prefer-standby'])(
  'checkUrl refuses several hosts with target_session_attrs=%s',
  (attributes) => {
    const url = `postgres://user:secret@one,two/database?target_session_attrs=${attributes}`
    const complaint = () => checkUrl(url, 'url')
    expect(complaint).toThrow(UsageError)
    expect(complaint).toThrow(`Expected target_session_attrs in url to be read-write or primary, got "${attributes}"`)
  },
)

test('urlsOf splits a URL with several hosts into one URL per host', () => {
  expect(urlsOf('postgres://user:a,b@one,two:5433/database?sslmode=require')).toEqual([
    'postgres://user:a,b@one/database?sslmode=require',
    'postgres://user:a,b@two:5433/database?sslmode=require',
  ])
  expect(urlsOf('postgres://user:a,b@one/data,base')).toEqual(['postgres://user:a,b@one/data,base'])
})

test.each([
  [{ connectionString: 'postgres://ann:secret@one,two:6432/app' }, 'ann@one:5432,two:6432/app'],
  [
    {
      hosts: [
        { host: 'one', port: 1 },
        { host: 'two', port: 2 },
      ],
      user: 'ann',
      database: 'app',
    },
    'ann@one:1,two:2/app',
  ],
  [{ connectionString: 'postgres://ann:secret@db.example:6432/app' }, 'ann@db.example:6432/app'],
  [{ connectionString: 'postgres://a%40b:secret@db.example/app' }, 'a@b@db.example:5432/app'],
  [{ host: 'db.example', user: 'ann', password: 'secret', database: 'app' }, 'ann@db.example:5432/app'],
  [{ host: 'db.example', port: 6432, user: 'ann' }, 'ann@db.example:6432/ann'],
])('addressOf shows connection %# without its password', (connection, address) => {
  vi.stubEnv('PGPORT', undefined)
  vi.stubEnv('PGDATABASE', undefined)
  expect(addressOf(connection)).toBe(address)
})

test('addressOf takes missing parts from the environment variables of the driver', () => {
  vi.stubEnv('PGUSER', 'env-user')
  vi.stubEnv('PGHOST', 'env-host')
  vi.stubEnv('PGPORT', '6543')
  vi.stubEnv('PGDATABASE', 'env-database')
  expect(addressOf({})).toBe('env-user@env-host:6543/env-database')
})

test.each([
  ['6543,6544', 'u@one:6543,two:6544/d'],
  ['6543', 'u@one:6543,two:6543/d'],
  [undefined, 'u@one:5432,two:5432/d'],
])('addressOf combines several hosts of PGHOST with the ports %s like libpq', (ports, address) => {
  vi.stubEnv('PGHOST', 'one,two')
  vi.stubEnv('PGPORT', ports)
  expect(addressOf({ user: 'u', database: 'd' })).toBe(address)
})
