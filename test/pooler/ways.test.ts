// What works behind poolers, and how: with a direct address for the anchor, without an anchor, in session mode.
import { spawn } from 'node:child_process'
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Holdfast, SessionLocksUnavailableError } from '../../src/index.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl, open } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

/** Advisory locks and sessions of Holdfast in the database, as the server sees them; nothing when all is over. */
async function remains(url: string): Promise<{ locks: number; sessions: number }> {
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

async function nothingRemains(url: string): Promise<void> {
  await until('nothing remains', async () => {
    const { locks, sessions } = await remains(url)
    return locks === 0 && sessions === 0
  })
}

/** Every way of locking, each excluding a second instance. */
async function exerciseLocks(one: Holdfast, other: Holdfast): Promise<void> {
  await one.locks.with('report', async ({ fence }) => {
    expect(fence).toBeGreaterThan(0)
    expect(await other.locks.tryAcquire('report')).toBeNull()
  })
  const held = await one.locks.acquire(['a', 'b'])
  const waiting = other.locks.acquire('b', { wait: '15s' })
  await held.release()
  const later = await waiting
  expect(later.fence).toBeGreaterThan(held.fence)
  await later.release()
  const free = await one.locks.tryAcquire('b')
  expect(free?.held).toBe(true)
  await free?.release()
}

async function namesIn(url: string): Promise<string[]> {
  return (await sql<{ label: string }>(url, 'select label from holdfast.name order by label')).map(({ label }) => label)
}

describe.skipIf(withoutPgBouncer)('behind PgBouncer in transaction mode', () => {
  test('with directUrl everything works, from the migrations on', async () => {
    const direct = await emptyDatabaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 5 })
    const url = pooler.through(direct)
    const [one, other] = [await open({ url, directUrl: direct }), await open({ url, directUrl: direct })]
    await exerciseLocks(one, other)

    const client = await sqlSession(url)
    await client.query('begin')
    const lock = await one.locks.inTransaction(client, 'user:42', { wait: '5s' })
    expect(lock.fence).toBeGreaterThan(0)
    expect(await other.locks.tryAcquire('user:42')).toBeNull()
    await client.query('commit')
    await other.locks.with('user:42', { wait: '5s' }, () => {})

    expect(await namesIn(direct)).toEqual(['a', 'b', 'report', 'user:42'])
    await Promise.all([one.close(), other.close()])
    await nothingRemains(direct)
  })

  test('postgres.js goes through it with prepare: false', async () => {
    const direct = await emptyDatabaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 5, roundRobin: true })
    const client = postgres(pooler.through(direct), { prepare: false, max: 3, onnotice: () => {} })
    onTestFinished(() => client.end())
    const [one, other] = [
      await open({ sql: client, directUrl: direct }),
      await open({ sql: client, directUrl: direct }),
    ]
    await exerciseLocks(one, other)
    await client.begin(async (tx) => {
      await one.locks.inTransaction(tx, 'user:42', { wait: '5s' })
      expect(await other.locks.tryAcquire('user:42')).toBeNull()
    })
    expect(await namesIn(direct)).toEqual(['a', 'b', 'report', 'user:42'])
    await Promise.all([one.close(), other.close()])
    await nothingRemains(direct)
  })

  test('a directUrl that leads elsewhere is refused', async () => {
    const pooler = await startPooler({ mode: 'transaction' })
    const url = pooler.through(await databaseUrl())
    const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url, directUrl: await databaseUrl() }))
    expect(error.reason).toBe('other-database')
  })

  test('a directUrl that leads through the pooler as well is refused', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction' })
    const url = pooler.through(direct)
    const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url, directUrl: url }))
    expect(error.reason).toBe('transaction-pooler')
  })

  test('without an anchor, locks of transactions work and session locks explain themselves', async () => {
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
    await until('the name is registered', async () => (await namesIn(direct)).includes('user:42'))
    await instance.close()
    await nothingRemains(direct)
  })
})

describe.skipIf(withoutPgBouncer)('behind PgBouncer in session mode', () => {
  test('it is accepted, seen, and its locks exclude', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'session', backends: 30 })
    const url = pooler.through(direct)
    const [one, other] = [await open({ url }), await open({ url })]
    const rows = await sql<{ pooler: string }>(direct, 'select pooler from holdfast.instance')
    expect(rows).toEqual([{ pooler: 'session pooler' }, { pooler: 'session pooler' }])
    await exerciseLocks(one, other)
    await Promise.all([one.close(), other.close()])
    // The backends stay with the pooler, which has reset them.
    await until('no lock remains', async () => (await remains(direct)).locks === 0)
    const client = await sqlSession(url)
    const { rows: after } = await client.query('show idle_session_timeout')
    expect(after).toEqual([{ idle_session_timeout: '0' }])
  })

  test('a killed process lets go at once', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'session', backends: 30 })
    const url = pooler.through(direct)
    const other = await open({ url })
    // A holder needs no Holdfast to be one: the key is that of the name, in SQL.
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

/** The 64-bit keys that are held, in decimal. */
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
