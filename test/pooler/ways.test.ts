// Tests the supported ways to use a pooler: a direct address for the anchor, no anchor, and session mode.
import { spawn } from 'node:child_process'
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Holdfast, SessionLocksUnavailableError } from '../../src/index.js'
import { caught, sql, sqlSession, until, untilRegistered } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl, open } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

/** Counts the advisory locks and the sessions of Holdfast in the database. */
async function countRemaining(url: string): Promise<{ locks: number; sessions: number }> {
  const [row] = await sql<{ locks: number; sessions: number }>(
    url,
    `select
       (select count(*)::integer from pg_locks where locktype = 'advisory' and database = own.oid) as locks,
       (select count(*)::integer from pg_stat_activity
        where datid = own.oid and application_name like 'holdfast %') as sessions
     from (select oid from pg_database where datname = current_database()) own`,
  )
  return row!
}

async function untilNothingRemains(url: string): Promise<void> {
  await until('no lock and no session remain', async () => {
    const { locks, sessions } = await countRemaining(url)
    return locks === 0 && sessions === 0
  })
}

/** Calls all methods that acquire locks, and checks that each lock excludes a second instance. */
async function exerciseLocks(one: Holdfast, other: Holdfast, direct: string): Promise<void> {
  await one.locks.with('report', async ({ fence }) => {
    expect(fence).toBeGreaterThan(0)
    expect(await other.locks.tryAcquire('report')).toBeNull()
    await untilRegistered(direct, 'report')
  })
  const held = await one.locks.acquire(['a', 'b'])
  const waiting = other.locks.acquire('b', { wait: '15s' })
  await untilRegistered(direct, 'a', 'b')
  await held.release()
  const later = await waiting
  expect(later.fence).toBeGreaterThan(held.fence)
  await later.release()
  const free = await one.locks.tryAcquire('b')
  expect(free?.held).toBe(true)
  await free?.release()
}

describe.skipIf(withoutPgBouncer)('locks behind PgBouncer in transaction mode', () => {
  test('migrations and all locks work with directUrl', async () => {
    const direct = await emptyDatabaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 5 })
    const url = pooler.through(direct)
    const [one, other] = [await open({ url, directUrl: direct }), await open({ url, directUrl: direct })]
    await exerciseLocks(one, other, direct)

    const client = await sqlSession(url)
    await client.query('begin')
    const lock = await one.locks.inTransaction(client, 'user:42', { wait: '5s' })
    expect(lock.fence).toBeGreaterThan(0)
    expect(await other.locks.tryAcquire('user:42')).toBeNull()
    await client.query('commit')
    await other.locks.with('user:42', { wait: '5s' }, () => {})

    await untilRegistered(direct, 'user:42')
    await Promise.all([one.close(), other.close()])
    await untilNothingRemains(direct)
  })

  test('all locks work with postgres.js, prepare: false and directUrl', async () => {
    const direct = await emptyDatabaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 5, roundRobin: true })
    const client = postgres(pooler.through(direct), { prepare: false, max: 3, onnotice: () => {} })
    onTestFinished(() => client.end())
    const [one, other] = [
      await open({ sql: client, directUrl: direct }),
      await open({ sql: client, directUrl: direct }),
    ]
    await exerciseLocks(one, other, direct)
    await client.begin(async (tx) => {
      await one.locks.inTransaction(tx, 'user:42', { wait: '5s' })
      expect(await other.locks.tryAcquire('user:42')).toBeNull()
    })
    await untilRegistered(direct, 'user:42')
    await Promise.all([one.close(), other.close()])
    await untilNothingRemains(direct)
  })

  test('a directUrl of another database is refused', async () => {
    const pooler = await startPooler({ mode: 'transaction' })
    const url = pooler.through(await databaseUrl())
    const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url, directUrl: await databaseUrl() }))
    expect(error.reason).toBe('other-database')
  })

  test('a directUrl through the pooler is refused', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction' })
    const url = pooler.through(direct)
    const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url, directUrl: url }))
    expect(error.reason).toBe('transaction-pooler')
  })

  test('transaction locks work without an anchor, and session locks throw an error with the reason', async () => {
    const direct = await emptyDatabaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 5 })
    const url = pooler.through(direct)
    const instance = await open({ url, anchor: 'none' })
    const [first, second] = [await sqlSession(url), await sqlSession(url)]
    await first.query('begin')
    await second.query('begin')
    const lock = await instance.locks.inTransaction(first, 'user:42')
    expect(await instance.locks.tryInTransaction(second, 'user:42')).toBeNull()
    await first.query('commit')
    const next = await instance.locks.inTransaction(second, 'user:42', { wait: '5s' })
    expect(next.fence).toBeGreaterThan(lock.fence)
    await second.query('rollback')

    const error = await caught(SessionLocksUnavailableError, instance.locks.acquire('user:42'))
    expect(error.reason).toBe('no-anchor')
    await untilRegistered(direct, 'user:42')
    await instance.close()
    await untilNothingRemains(direct)
  })
})

describe.skipIf(withoutPgBouncer)('locks behind PgBouncer in session mode', () => {
  test('a session pooler is accepted and recorded, and locks exclude other instances', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'session', backends: 30 })
    const url = pooler.through(direct)
    const [one, other] = [await open({ url }), await open({ url })]
    const rows = await sql<{ pooler: string }>(direct, 'select pooler from holdfast.instance')
    expect(rows).toEqual([{ pooler: 'session pooler' }, { pooler: 'session pooler' }])
    await exerciseLocks(one, other, direct)
    await Promise.all([one.close(), other.close()])
    // The pooler keeps the backends and has reset their settings.
    await until('no lock remains', async () => (await countRemaining(direct)).locks === 0)
    const client = await sqlSession(url)
    const { rows: after } = await client.query('show idle_session_timeout')
    expect(after).toEqual([{ idle_session_timeout: '0' }])
  })

  test('the lock of a killed process is released immediately', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'session', backends: 30 })
    const url = pooler.through(direct)
    const other = await open({ url })
    // The holder uses plain SQL with the key of the name.
    const holder = spawn(process.execPath, ['--input-type=module', '-e', holderProgram, url], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => {
      holder.kill('SIGKILL')
    })
    const key = other.locks.key('report')
    await until('the child holds the name', async () => (await keysHeld(direct)).includes(key))
    expect(await other.locks.tryAcquire('report')).toBeNull()
    const waiting = other.locks.acquire('report', { wait: '10s' })
    holder.kill('SIGKILL')
    const lock = await waiting
    await lock.release()
  })
})

const holderProgram = `
import pg from 'pg'
const client = new pg.Client({ connectionString: process.argv[1] })
await client.connect()
await client.query("select pg_advisory_lock(holdfast.lock_key('default', 'report'))")
setInterval(() => {}, 1000)
`

/** Returns the held 64-bit keys as decimal numbers. */
async function keysHeld(url: string): Promise<string[]> {
  const rows = await sql<{ key: string }>(
    url,
    `select ((classid::bigint << 32) | objid::bigint)::text as key
     from pg_locks
     where locktype = 'advisory' and objsubid = 1 and granted
       and database = (select oid from pg_database where datname = current_database())`,
  )
  return rows.map(({ key }) => key)
}
