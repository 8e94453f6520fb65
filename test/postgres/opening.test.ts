// Tests how opening fails: each failure throws a typed error, leaves nothing behind and reveals no secret.
import { inspect } from 'node:util'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  DatabaseError,
  DatabaseUnreachableError,
  Holdfast,
  LoginRefusedError,
  PermissionError,
  ReadOnlyError,
  SessionLocksUnavailableError,
  TooManyConnectionsError,
  UsageError,
} from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlPool, until } from '../setup/facts.js'
import { databaseUrl, open, roleUrl } from '../setup/instances.js'
import { severalHosts } from '../setup/pair.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

function changed(url: string, change: (address: URL) => void): string {
  const address = new URL(url)
  change(address)
  return address.href
}

function newPostgresJs(url: string): postgres.Sql {
  const client = postgres(url)
  onTestFinished(() => client.end())
  return client
}

const sessions = (url: string) =>
  sql(url, "select pid from pg_stat_activity where application_name like 'holdfast%' and datname = current_database()")

describe('invalid options', () => {
  test.each<[unknown, string]>([
    [{}, 'Expected exactly one of url, pool and sql, got 0'],
    [undefined, 'Expected exactly one of url, pool and sql, got 0'],
    [{ url: undefined }, 'Expected exactly one of url, pool and sql, got 0'],
    [{ url: 'postgres://x', pool: new pg.Pool() }, 'Expected exactly one of url, pool and sql, got 2'],
    [{ url: 'x' }, 'Expected url to be a URL like postgres://user:password@host:5432/database, got a string of 1'],
    [{ url: 'postgres://x', directUrl: 'y' }, 'Expected directUrl to be a URL like'],
    [{ url: 'postgres://x', expiry: '1s' }, 'Expected expiry to be a duration of at least 2s and at most 1d, got "1s"'],
    [{ url: 'postgres://x', namespace: 'a\0' }, 'Expected namespace to be a string of 1 to 500 characters'],
    [{ connectionString: 'postgres://x' }, 'Holdfast.open has no option "connectionString": did you mean "url"?'],
    [{ url: 'postgres://x', anchr: 'none' }, 'Holdfast.open has no option "anchr": did you mean "anchor"?'],
    [{ url: 'postgres://x', poolSize: 0 }, 'Expected poolSize to be a whole number between 1 and 1000, got 0'],
    [
      { url: 'postgres://x', waitConnections: 0 },
      'Expected waitConnections to be a whole number between 1 and 100, got 0',
    ],
    [{ pool: 'postgres://x' }, 'Expected pool to be a pool of node-postgres, got "postgres://x" (string)'],
    [{ pool: {} }, 'Expected pool to be a pool of node-postgres, got an object (Object)'],
    [{ sql: 5 }, 'Expected sql to be the sql of postgres.js, got 5 (number)'],
    [{ sql: {} }, 'Expected sql to be the sql of postgres.js, got an object (Object)'],
  ])('Holdfast.open refuses invalid options %#: %o', async (options, message) => {
    const error = await caught(UsageError, Holdfast.open(options as never))
    expect(error.message).toContain(message)
  })
})

test('a wrong password is reported, and the error does not contain the password', async () => {
  const url = changed(fresh.url, (address) => {
    address.password = 'open-sesame'
  })
  const error = await caught(DatabaseError, Holdfast.open({ url }))
  expect(error).toMatchObject({ sqlstate: '28P01', retryable: false })
  expect(error.message).toContain('password authentication failed')
  expect(error.message).not.toContain('open-sesame')
})

test('a database that does not exist is reported', async () => {
  const url = changed(fresh.url, (address) => {
    address.pathname = '/no_such_database'
  })
  expect(await caught(DatabaseError, Holdfast.open({ url }))).toMatchObject({ sqlstate: '3D000' })
})

const refused: Record<string, [state: string, change: (address: URL) => void]> = {
  'a wrong password': ['28P01', (address) => void Object.assign(address, { password: 'open-sesame' })],
  'no password': ['28P01', (address) => void Object.assign(address, { password: '' })],
  'a role that does not exist': ['28P01', (address) => void Object.assign(address, { username: 'nobody_here' })],
  'a database that does not exist': [
    '3D000',
    (address) => void Object.assign(address, { pathname: '/no_such_database' }),
  ],
}
const openers: Record<string, (url: string) => Promise<Holdfast>> = {
  'an anchor': (url) => Holdfast.open({ url }),
  'no anchor': (url) => Holdfast.open({ url, anchor: 'none' }),
  'a pool of the program': (url) => Holdfast.open({ pool: sqlPool({ connectionString: url }), anchor: 'none' }),
  'postgres.js': (url) => Holdfast.open({ sql: newPostgresJs(url) as never, anchor: 'none' }),
  'several hosts': (url) => Holdfast.open({ url: severalHosts(url, url) }),
}
const ways = Object.keys(refused).flatMap((what) => Object.keys(openers).map((by): [string, string] => [what, by]))

test.each(ways)('%s, opened with %s, is refused with user, host, port and database', async (what, by) => {
  const [state, change] = refused[what]!
  const url = changed(fresh.url, change)
  const { hostname, port, username, pathname } = new URL(url)
  const error = await caught(LoginRefusedError, openers[by]!(url))
  expect(error).toMatchObject({ code: 'LOGIN_REFUSED', sqlstate: state, retryable: false })
  expect(error.hint).toContain(`${hostname}:${port}`)
  expect(error.hint).toContain(`as user "${username}", database "${pathname.slice(1)}"`)
  expect(inspect(error, { depth: 0 })).not.toContain('open-sesame')
})

test.each(['127.0.0.1:1', 'no-such-host.invalid'])(
  'a server that cannot be reached (%s) throws DatabaseUnreachableError',
  async (host) => {
    const error = await caught(
      DatabaseUnreachableError,
      Holdfast.open({ url: `postgres://user:open-sesame@${host}/x` }),
    )
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE', retryable: true })
    expect(error.message).not.toContain('open-sesame')
  },
)

test('a role without rights gets a hint, and no session is left', async () => {
  const { url } = await roleUrl(fresh.url)
  const error = await caught(PermissionError, Holdfast.open({ url }))
  expect(error).toMatchObject({ code: 'PERMISSION_DENIED', retryable: false })
  expect(error.hint).toContain('holdfast migrate')
  const { username } = new URL(url)
  await until('no session is left', async () => {
    const left = await sql(fresh.url, 'select pid from pg_stat_activity where usename = $1', [username])
    return left.length === 0
  })
})

test('a role with too few connections throws TooManyConnectionsError', async () => {
  const { url } = await roleUrl(fresh.url, 'connection limit 1')
  const error = await caught(TooManyConnectionsError, Holdfast.open({ url }))
  expect(error).toMatchObject({ code: 'TOO_MANY_CONNECTIONS', retryable: true })
  expect(error.message).toContain('too many connections for role')
})

test('a read-only database throws ReadOnlyError', async () => {
  const url = await databaseUrl()
  await sql(url, `alter database ${new URL(url).pathname.slice(1)} set default_transaction_read_only = on`)
  expect(await caught(ReadOnlyError, Holdfast.open({ url }))).toMatchObject({ code: 'READ_ONLY', retryable: true })
  await until('no session is left', async () => (await sessions(url)).length === 0)
})

describe('default_transaction_read_only', () => {
  const by: Record<string, [set: (role: string, database: string) => string, origin: string]> = {
    'the database': [(_, database) => `database ${database}`, 'set for the database'],
    'the role': [(role) => `role ${role}`, 'set for the role'],
    'the role in the database': [
      (role, database) => `role ${role} in database ${database}`,
      'set for the role in this database',
    ],
  }
  const ways = Object.keys(by).flatMap((where) =>
    (['required', 'none'] as const).map((anchor) => [where, anchor] as const),
  )

  test.each(ways)(
    'default_transaction_read_only of %s is named, with the statement that changes it (anchor: %s)',
    async (where, anchor) => {
      const url = await databaseUrl()
      const [set, origin] = by[where]!
      const { url: ownUrl, role } = await roleUrl(url, 'superuser')
      await sql(url, `alter ${set(role, new URL(url).pathname.slice(1))} set default_transaction_read_only = on`)
      const open = async () => {
        const holdfast = await Holdfast.open({ url: ownUrl, anchor })
        await holdfast.leases.tryAcquire('name').finally(() => holdfast.close())
      }
      const error = await caught(ReadOnlyError, open())
      expect(error).toMatchObject({ code: 'READ_ONLY', reason: 'setting', retryable: true })
      expect(error.message).toBe(`The database is read-only: default_transaction_read_only is on, ${origin}`)
      // The statement in the hint works as it is written.
      const [, change] = /run `(.*)`/.exec(error.hint!)!
      await sql(ownUrl, change!)
      await open()
    },
  )

  test('default_transaction_read_only in the URL is named', async () => {
    const url = `${await databaseUrl()}?options=-c%20default_transaction_read_only%3Don`
    const error = await caught(ReadOnlyError, Holdfast.open({ url }))
    expect(error).toMatchObject({ reason: 'setting' })
    expect(error.message).toContain('set by the connection')
    expect(error.hint).toContain('remove the setting from the URL')
  })
})

test('twenty instances share a pool without a warning from Node.js', async () => {
  const pool = sqlPool({ connectionString: fresh.url, max: 5 })
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  const instances = await Promise.all(Array.from({ length: 20 }, () => open({ pool, anchor: 'none' })))
  // Node.js emits a warning in the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', onWarning)
  expect(warnings).toEqual([])
  await Promise.all(instances.slice(1).map((instance) => instance.close()))
  expect(pool.listenerCount('acquire')).toBe(1)
  await instances[0]!.close()
  expect(pool.listenerCount('acquire')).toBe(0)
})

test('a schema with a name of 63 bytes works, and the driver prints no error', async () => {
  const url = await databaseUrl()
  const consoleError = vi.spyOn(console, 'error').mockImplementation(() => {})
  const instance = await open({ url, schema: 'x'.repeat(63) })
  await instance.locks.with('name', () => {})
  expect(consoleError.mock.calls).toEqual([])
  consoleError.mockRestore()
})

test('a directUrl to another database is refused', async () => {
  const error = await caught(
    SessionLocksUnavailableError,
    Holdfast.open({ url: fresh.url, directUrl: await databaseUrl() }),
  )
  expect(error).toMatchObject({ reason: 'other-database', code: 'SESSION_LOCKS_UNAVAILABLE' })
})

test('a directUrl to the same database is accepted', async () => {
  const instance = await open({ url: fresh.url, directUrl: fresh.url })
  await instance.locks.with('direct', () => {})
})

test('an expiry with a fraction of a millisecond is accepted', async () => {
  const instance = await open({ url: fresh.url, expiry: '2.5005s' })
  const [row] = await sql(fresh.url, 'select expiry_ms, refused_settings from holdfast.instance where id = $1', [
    instance.id,
  ])
  expect(row).toMatchObject({ expiry_ms: 2501 })
})

test('closing twice is harmless, and leaves nothing in the database', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  await instance.locks.acquire('held at the end')
  await Promise.all([instance.close(), instance.close()])
  expect(await sql(url, 'select from holdfast.instance')).toEqual([])
  await until('no session is left', async () => (await sessions(url)).length === 0)
  await expect(instance.locks.acquire('later')).rejects.toMatchObject({ code: 'CLOSED' })
})
