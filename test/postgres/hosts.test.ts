// Tests which of several hosts is used as the primary, by everything that connects, and which host is never used again.
import type pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { DatabaseError, DatabaseUnreachableError, Holdfast, HostsClient, UsageError } from '../../src/index.js'
import { run } from '../cli/program.js'
import { board, raw, serve } from '../dashboard/fixture.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { caught, sql, sqlPool, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { catchUp, type Pair, promote, samePlace, severalHosts, startPair } from '../setup/pair.js'

let pair: Pair
let primaryUrl: string
let standbyUrl: string

beforeAll(async () => {
  pair = await startPair()
  primaryUrl = await pair.primary.createDatabase('app', { template: inject('preparedServer').templateName })
  standbyUrl = samePlace(pair.standby, primaryUrl)
  await catchUp(pair)
})
afterAll(() => pair?.stop())

const unusedPort = () => primaryUrl.replace(/:\d+\//, ':1/')

async function silent(): Promise<string> {
  const proxy = await SilentProxy.before(primaryUrl)
  proxy.onConnection = () => new Promise(() => {})
  onTestFinished(() => proxy.close())
  return proxy.through(primaryUrl)
}

async function portOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query("select current_setting('port')::integer as port")
  return rows[0].port
}

async function connected(url: string): Promise<pg.Client> {
  const client = new HostsClient<pg.Client>({ connectionString: url, connectionTimeoutMillis: 4_000 })
  onTestFinished(() => client.end().catch(() => {}))
  await client.connect()
  return client
}

describe('the primary', () => {
  test.each<[string, () => string | Promise<string>]>([
    ['behind a standby', () => severalHosts(standbyUrl, primaryUrl)],
    ['before a standby', () => severalHosts(primaryUrl, standbyUrl)],
    ['behind a host without a server', () => severalHosts(unusedPort(), primaryUrl)],
    ['behind a silent host', async () => severalHosts(await silent(), primaryUrl)],
    ['if the URL requests read-write', () => `${severalHosts(standbyUrl, primaryUrl)}?target_session_attrs=read-write`],
  ])('the primary is found %s', async (_, makeUrl) => {
    const url = await makeUrl()
    expect(await portOf(await connected(url))).toBe(pair.primary.port)
    const holdfast = await open({ url, expiry: '2s' })
    await holdfast.locks.with('x', ({ fence }) => expect(fence).toBeGreaterThan(0))
    expect(holdfast.context.database.address).toBe(
      `postgres@${new URL(url.replace(/,[^/]*/, '')).host},${url.match(/,([^/]*)/)![1]}/app`,
    )
  })

  test('the primary is found by a node-postgres pool of the user', async () => {
    const pool = sqlPool({ connectionString: severalHosts(standbyUrl, primaryUrl), Client: HostsClient })
    const holdfast = await open({ pool })
    await holdfast.locks.with('x', () => {})
    expect((await pool.query('select pg_is_in_recovery() as replica')).rows).toEqual([{ replica: false }])
  })

  test('the primary is found by a pool whose fields contain several hosts', async () => {
    const { username, password, pathname } = new URL(primaryUrl)
    const pool = sqlPool({
      host: '127.0.0.1,127.0.0.1',
      port: `${pair.standby.port},${pair.primary.port}` as never,
      user: username,
      password,
      database: pathname.slice(1),
      Client: HostsClient,
    })
    expect((await pool.query('select pg_is_in_recovery() as replica')).rows).toEqual([{ replica: false }])
  })

  test('the primary is found by postgres.js, which requires target_session_attrs for several hosts', async () => {
    const url = severalHosts(standbyUrl, primaryUrl)
    const toPrimary = postgres(url, { target_session_attrs: 'primary' })
    const toAnyHost = postgres(url)
    onTestFinished(async () => void (await Promise.all([toPrimary.end(), toAnyHost.end()])))
    const holdfast = await open({ sql: toPrimary as never })
    await holdfast.locks.with('x', () => {})
    const error = await caught(UsageError, Holdfast.open({ sql: toAnyHost as never }))
    expect(error.message).toBe(
      'Expected the postgres.js option target_session_attrs to be primary for several hosts, got undefined',
    )
  })

  test('the primary is found by the command line, with a URL and with the variables of libpq', async () => {
    const { username, password } = new URL(primaryUrl)
    const byVariables = {
      PGHOST: '127.0.0.1,127.0.0.1',
      PGPORT: `${pair.standby.port},${pair.primary.port}`,
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: 'app',
    }
    const url = severalHosts(standbyUrl, primaryUrl)
    for (const env of [byVariables, { DATABASE_URL: url }]) {
      expect(await run(['migrate', '--check'], env)).toMatchObject({ status: 0 })
      const { stdout } = await run(['doctor'], env)
      expect(stdout).toContain('history-not-replicated')
    }
  })

  test('the primary is found by the dashboard', async () => {
    const base = await serve(board({ url: severalHosts(standbyUrl, primaryUrl), auth: () => ({ name: 'ann' }) }), '')
    const { status, text } = await raw(`${base}/api/views/now`)
    expect({ status, text }).toMatchObject({ status: 200 })
  })
})

describe('a missing primary', () => {
  test('no primary is found among a standby and a host without a server', async () => {
    const error = await caught(DatabaseUnreachableError, connected(severalHosts(standbyUrl, unusedPort())))
    expect(error.message).toBe(
      `None of the hosts is a reachable primary: 127.0.0.1:${pair.standby.port} (a standby, or read-only), ` +
        '127.0.0.1:1 (connect ECONNREFUSED 127.0.0.1:1)',
    )
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE', retryable: true })
    await caught(DatabaseUnreachableError, Holdfast.open({ url: severalHosts(standbyUrl, unusedPort()) }))
  })

  test('no primary is found among silent hosts, and the attempt ends within the connection timeout', async () => {
    const url = severalHosts(await silent(), await silent())
    const askedAt = performance.now()
    await caught(DatabaseUnreachableError, Holdfast.open({ url, expiry: '2s' }))
    // Two seconds for both hosts together, not for each of them.
    expect(performance.now() - askedAt).toBeLessThan(4_000)
  })

  test('no primary is found for a role that can only read', async () => {
    await sql(primaryUrl, "create role reader login password 'secret'")
    await sql(primaryUrl, 'alter role reader set default_transaction_read_only = on')
    const url = new URL(primaryUrl)
    Object.assign(url, { username: 'reader', password: 'secret' })
    const error = await caught(DatabaseUnreachableError, connected(severalHosts(url.href, unusedPort())))
    expect(error.message).toContain(`${pair.primary.port} (a standby, or read-only)`)
  })

  test('a wrong password is reported instead of a missing primary', async () => {
    const url = new URL(primaryUrl)
    url.password = 'wrong'
    const error = await caught(DatabaseError, connected(severalHosts(url.href, unusedPort())))
    expect(error).toMatchObject({ sqlstate: '28P01', retryable: false })
  })

  test('a URL that requests another kind of host is refused', async () => {
    const url = `${severalHosts(standbyUrl, primaryUrl)}?target_session_attrs=any`
    expect((await caught(UsageError, Holdfast.open({ url }))).hint).toContain('connects to the primary')
  })
})

test('the later of two writable servers is the primary, and a process that has seen it never goes back to the earlier one', async () => {
  const url = severalHosts(primaryUrl, standbyUrl)
  const before = await connected(url)
  const ended = new Promise((resolve) => before.once('end', resolve))
  expect(await portOf(before)).toBe(pair.primary.port)
  await promote(pair)
  // The old primary is the first host in the list and accepts connections.
  await until('the new primary is found', async () => {
    const client = await connected(url).catch(() => undefined)
    return client && (await portOf(client).catch(() => 0)) === pair.standby.port
  })
  expect(await portOf(await connected(url))).toBe(pair.standby.port)
  await ended
  await pair.standby.stop('immediate')
  expect(await sql(primaryUrl, 'select pg_is_in_recovery() as replica')).toEqual([{ replica: false }])
  const error = await caught(DatabaseUnreachableError, connected(url))
  expect(error.message).toContain(`127.0.0.1:${pair.primary.port} (was the primary, but has been replaced)`)
})
