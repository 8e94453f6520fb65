// Tests the anchor of an instance: what it sets, what it records, and how it reconnects.

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { loadStatements, Session, type SessionStatements } from '../../src/postgres/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlPool, until } from '../setup/facts.js'
import { anchorPid, open } from '../setup/instances.js'
import { ownServer } from '../setup/own-server.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

interface InstanceRow {
  id: string
  session: number
  backend_pid: number
  os_pid: number
  namespace: string
  version: string
  expiry_ms: number
  reconnects: number
  pooler: string
  refused_settings: Record<string, { wanted: string; got: string | null }>
}

async function rowOf(url: string, id: string | undefined): Promise<InstanceRow> {
  const [row] = await sql<InstanceRow>(url, 'select * from holdfast.instance where id = $1', [id])
  return row!
}

async function openSession(connection: { connectionString: string }, expiryMs: number): Promise<Session> {
  const statements = loadStatements<keyof SessionStatements>(
    new URL('../../src/postgres/session.sql', import.meta.url),
    'holdfast',
  )
  const session = await Session.open({ connection, applicationName: 'holdfast test', expiryMs, statements })
  onTestFinished(() => session.close())
  return session
}

const shown = { name: 'shown', text: 'select current_setting($1)' }

describe('the settings of a session', () => {
  test('the settings of a session take effect', async () => {
    const session = await openSession({ connectionString: fresh.url }, 4_000)
    const show = async (name: string) => (await session.run(shown, [name]))[0]![0]
    expect(await show('idle_session_timeout')).toBe('4s')
    expect(await show('idle_in_transaction_session_timeout')).toBe('4s')
    expect(await show('statement_timeout')).toBe('4s')
    expect(await show('search_path')).toBe('pg_catalog, pg_temp')
    expect(await show('client_connection_check_interval')).toBe('500ms')
    expect(await show('tcp_user_timeout')).toBe('4000')
    expect(await show('tcp_keepalives_idle')).toBe('1')
    expect(await show('default_transaction_isolation')).toBe('read committed')
    // Servers before 17 have no transaction_timeout.
    if (session.serverVersion >= 170_000) expect(session.refusedSettings).toEqual({})
  })

  test('the settings of a session do not end it while its client is alive but idle', async () => {
    const session = await openSession({ connectionString: fresh.url }, 2_000)
    let reason: unknown
    session.onLoss((loss) => {
      reason = loss
    })
    const begin = performance.now()
    await until('twice the expiry has passed', () => performance.now() - begin > 4_200)
    expect(reason).toBeUndefined()
    expect(session.trusted).toBe(true)
  })

  test('the refused settings of a session are recorded', async () => {
    // A connection through a Unix socket has no TCP settings.
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-socket-'))
    chmodSync(directory, 0o777)
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const server = await ownServer({ fsync: 'off', unix_socket_directories: directory })
    const { username, password, port } = new URL(server.url)
    const pool = sqlPool({ host: directory, port: Number(port), user: username, password, database: 'postgres' })
    const instance = await open({ pool, expiry: '5s' })
    const { refused_settings: refused } = await rowOf(server.url, instance.id)
    expect(refused.tcp_user_timeout).toEqual({ wanted: '5000', got: '0' })
    expect(Object.keys(refused).every((name) => name.startsWith('tcp_'))).toBe(true)
  })
})

test('the instance row describes the instance', async () => {
  const instance = await open({ url: fresh.url, namespace: 'described', expiry: '7s' })
  expect(await rowOf(fresh.url, instance.id)).toMatchObject({
    namespace: 'described',
    os_pid: process.pid,
    expiry_ms: 7_000,
    reconnects: 0,
    pooler: 'none',
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
  })
})

test('a session holds a lock on its number, which PostgreSQL releases when the session ends', async () => {
  const instance = await open({ url: fresh.url })
  const { session } = await rowOf(fresh.url, instance.id)
  const free = async () => {
    const [row] = await sql<{ free: boolean }>(
      fresh.url,
      'select pg_try_advisory_xact_lock(holdfast.session_class(), $1::integer) as free',
      [session],
    )
    return row!.free
  }
  expect(await free()).toBe(false)
  await instance.close()
  await until('the session number is not locked', free)
  expect(await sql(fresh.url, 'select from holdfast.instance where id = $1', [instance.id])).toEqual([])
})

describe('a reconnect', () => {
  test('a reconnect after the server has ended the session gets a new number and listens again', async () => {
    const instance = await open({ url: fresh.url })
    const before = await rowOf(fresh.url, instance.id)
    await sql(fresh.url, 'select pg_terminate_backend($1)', [before.backend_pid])
    const after = await until('the instance has reconnected', async () => {
      const row = await rowOf(fresh.url, instance.id)
      return row.reconnects === 1 && row
    })
    expect(after.session).toBeGreaterThan(before.session)
    expect(after.backend_pid).not.toBe(before.backend_pid)

    await using lock = await instance.locks.acquire('after the reconnect', { wait: '10s' })
    const { signal } = lock
    await sql(fresh.url, `select pg_notify('holdfast', $1)`, [`lock-release-requested ${lock.keys[0]} ${instance.id}`])
    await until('the notification has arrived', () => signal.aborted)
    expect(signal.reason).toMatchObject({ code: 'RELEASE_REQUESTED' })
  })

  test('a reconnect works again and again', async () => {
    const instance = await open({ url: fresh.url })
    for (const reconnects of [1, 2, 3]) {
      await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, instance)])
      await until(
        `reconnect ${reconnects} is recorded`,
        async () => (await rowOf(fresh.url, instance.id)).reconnects === reconnects,
      )
    }
    await instance.locks.with('after three reconnects', { wait: '10s' }, () => {})
  })

  test('a reconnect leaves one session, and none if the instance closes during the reconnect', async () => {
    const instance = await open({ url: fresh.url })
    const sessions = () =>
      sql(fresh.url, "select pid from pg_stat_activity where application_name = 'holdfast ' || $1", [instance.id])
    await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, instance)])
    await until('the instance has reconnected', async () => (await rowOf(fresh.url, instance.id)).reconnects === 1)
    expect(await sessions()).toHaveLength(1)
    await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, instance)])
    await instance.close()
    await until('no session is left', async () => (await sessions()).length === 0)
  })

  test('a reconnect delays a waiting acquire, and makes a tryAcquire throw', async () => {
    const url = fresh.url
    const instance = await open({ url })
    const lock = await instance.locks.acquire('across reconnects')
    const { signal } = lock
    const lost = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, instance)])
    // No session exists yet in the turn of the event loop in which the lock reports its loss.
    await lost
    expect(lock.held).toBe(false)
    const [tried, waited] = await Promise.allSettled([
      instance.locks.tryAcquire('across reconnects'),
      instance.locks.acquire('across reconnects', { wait: '10s' }),
    ])
    expect(tried).toMatchObject({ status: 'rejected', reason: { code: 'DATABASE_UNREACHABLE', retryable: true } })
    expect(waited).toMatchObject({ status: 'fulfilled', value: { held: true } })
  })
})
