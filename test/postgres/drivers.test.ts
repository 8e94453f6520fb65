// One contract for all ways to connect: a URL, a node-postgres pool of the user, and postgres.js of the user.
import type pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { DatabaseError, DatabaseUnreachableError, type HoldfastOptions, LockTimeoutError } from '../../src/index.js'
import { type Database, fromPgPool, fromPostgresJs, openPgPool } from '../../src/postgres/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlPool } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await sql(fresh.url, 'create table note (text text, constraint late unique (text) deferrable initially deferred)')
})
afterAll(() => fresh.drop())

interface Driver {
  way: Pick<HoldfastOptions, 'url' | 'pool' | 'sql'>
  database: Database
  /** Runs `work` in a transaction of the user, with the client of the user. */
  begin<T>(work: (tx: never) => Promise<T>): Promise<T>
}

function newPool(url: string): pg.Pool {
  const pool = sqlPool({ connectionString: url, max: 4 })
  return pool
}

function newPostgresJs(url: string) {
  const client = postgres(url, { max: 4, onnotice: () => {}, connect_timeout: 5 })
  onTestFinished(() => client.end({ timeout: 1 }))
  return client
}

async function inPgTransaction<T>(pool: pg.Pool, work: (tx: never) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client as never)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

const drivers: Record<string, (url: string) => Driver> = {
  url(url) {
    const database = openPgPool({ connectionString: url })
    onTestFinished(() => database.close())
    const pool = newPool(url)
    return { way: { url }, database, begin: (work) => inPgTransaction(pool, work) }
  },
  'a pool of node-postgres'(url) {
    const pool = newPool(url)
    return { way: { pool }, database: fromPgPool(pool), begin: (work) => inPgTransaction(pool, work) }
  },
  'postgres.js'(url) {
    const client = newPostgresJs(url)
    const database = fromPostgresJs(client)
    onTestFinished(() => database.close())
    return {
      way: { sql: client as never },
      database,
      begin: (work) => client.begin((tx) => work(tx as never)) as Promise<never>,
    }
  },
}

describe.each(Object.keys(drivers))('by %s', (name) => {
  const driver = (url = fresh.url) => drivers[name]!(url)
  const notes = () => sql(fresh.url, 'select text from note where text like $1', [`${name}%`])

  test('values are returned as they were sent', async () => {
    const { database } = driver()
    const rows = await database.query(
      `select $1::text as text, $2::integer as number, $3::boolean as truth, $4::bigint as large, $5::text[] as list,
         $6::bigint[] as keys, $7::text::jsonb as json`,
      ['Ünï', 7, true, '9223372036854775807', ['a', 'b,"c'], '{1,-2}', JSON.stringify({ a: 1 })],
    )
    expect(rows).toEqual([
      {
        text: 'Ünï',
        number: 7,
        truth: true,
        large: '9223372036854775807',
        list: ['a', 'b,"c'],
        keys: ['1', '-2'],
        json: { a: 1 },
      },
    ])
    expect(Array.isArray(rows)).toBe(true)
  })

  test('a transaction commits when its work resolves', async () => {
    const { database } = driver()
    const result = await database.transaction(async (tx) => {
      await tx.query('insert into note values ($1)', [`${name} committed`])
      return 'result'
    })
    expect(result).toBe('result')
    expect(await notes()).toEqual([{ text: `${name} committed` }])
  })

  test('a transaction rolls back, and throws the same error, when its work throws', async () => {
    const { database } = driver()
    const reason = new Error('no')
    const work = database.transaction(async (tx) => {
      await tx.query('insert into note values ($1)', [`${name} rolled back`])
      throw reason
    })
    await expect(work).rejects.toBe(reason)
    expect(await notes()).not.toContainEqual({ text: `${name} rolled back` })
  })

  test('a commit that the server refuses throws a typed error', async () => {
    const { database } = driver()
    const twice = database.transaction(async (tx) => {
      await tx.query('insert into note values ($1), ($1)', [`${name} twice`])
    })
    expect(await caught(DatabaseError, twice)).toMatchObject({ sqlstate: '23505' })
    expect(await notes()).not.toContainEqual({ text: `${name} twice` })
  })

  test('a transaction whose statement failed does not report a commit', async () => {
    const { database } = driver()
    const work = database.transaction(async (tx) => {
      await tx.query('insert into note values ($1)', [`${name} swallowed`])
      await tx.query('select 1 / 0').catch(() => {})
    })
    await caught(DatabaseError, work)
    expect(await notes()).not.toContainEqual({ text: `${name} swallowed` })
  })

  test('a statement that the server refuses throws a typed error', async () => {
    const { database } = driver()
    expect(await caught(DatabaseError, database.query('select 1 / 0'))).toMatchObject({ sqlstate: '22012' })
    const inside = database.transaction((tx) => tx.query('select 1 / 0'))
    expect(await caught(DatabaseError, inside)).toMatchObject({ sqlstate: '22012' })
  })

  test('a server that cannot be reached throws a typed error without the password', async () => {
    const { database } = driver('postgres://user:open-sesame@127.0.0.1:1/nowhere')
    for (const work of [() => database.query('select 1'), () => database.transaction((tx) => tx.query('select 1'))]) {
      const error = await caught(DatabaseUnreachableError, work)
      expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE', retryable: true })
      expect(JSON.stringify([error.message, error.hint])).not.toContain('open-sesame')
    }
    expect(database.address).toBe('user@127.0.0.1:1/nowhere')
  })

  test('Holdfast opens, locks and closes', async () => {
    const holdfast = await open(driver().way)
    const other = await open({ url: fresh.url })
    await holdfast.locks.with(`${name} lock`, async () => {
      expect(await other.locks.tryAcquire(`${name} lock`)).toBeNull()
    })
    await using lock = await other.locks.acquire(`${name} lock`)
    expect(lock.held).toBe(true)
  })

  test('locks in a transaction of the user are held until it ends', async () => {
    const { way, begin } = driver()
    const holdfast = await open(way)
    const other = await open({ url: fresh.url })
    const key = `${name} in transaction`
    const fence = await begin(async (tx) => {
      const lock = await holdfast.locks.inTransaction(tx, key)
      expect(await other.locks.tryAcquire(key)).toBeNull()
      return lock.fence
    })
    await using lock = await other.locks.acquire(key, { wait: 0 })
    expect(lock.fence).toBeGreaterThan(fence)
  })

  test('a transaction of the user continues, and commits, after a wait in it has timed out', async () => {
    const { way, begin } = driver()
    const holdfast = await open(way)
    const other = await open({ url: fresh.url })
    const key = `${name} taken`
    await using _lock = await other.locks.acquire(key)
    await begin(async (tx) => {
      await holdfast.locks.inTransaction(tx, `${name} free`)
      const error = await caught(LockTimeoutError, holdfast.locks.inTransaction(tx, key, { wait: 30 }))
      expect(error).toMatchObject({ lock: key, code: 'LOCK_TIMEOUT' })
      expect(await holdfast.locks.tryInTransaction(tx, [`${name} free too`, key])).toBeNull()
      expect(await other.locks.tryAcquire(`${name} free`)).toBeNull()
      await using _free = await other.locks.acquire(`${name} free too`, { wait: 0 })
    })
  })
})

test('a closed database opens no connection for a transaction', async () => {
  const database = openPgPool({ connectionString: fresh.url })
  await database.close()
  await expect(database.transaction(async () => {})).rejects.toThrow('This instance is closed')
})

describe('a pool of the user', () => {
  test('a pool of the user is untouched when Holdfast closes', async () => {
    const pool = newPool(fresh.url)
    const holdfast = await open({ pool })
    await holdfast.close()
    expect(pool.ended).toBe(false)
    expect(pool.idleCount).toBe(pool.totalCount)
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  })

  test('a pool of the user collects no listeners when Holdfast opens on it repeatedly', async () => {
    const pool = newPool(fresh.url)
    const before = pool.listenerCount('error')
    for (let i = 0; i < 12; i++) await (await open({ pool })).close()
    // One listener stays, because the end of a pool does not wait for its connections.
    expect(pool.listenerCount('error')).toBe(before + 1)
  })

  test('a pool of the user can lose a session at the moment when it hands the session out', async () => {
    const pool = newPool(fresh.url)
    const holdfast = await open({ pool })
    // The error comes before the caller of connect() can listen. Without a listener, the process would end.
    pool.once('acquire', (client) => process.nextTick(() => client.emit('error', new Error('The server ended it'))))
    const client = await pool.connect()
    client.release(true)
    await holdfast.close()
    expect(pool.listenerCount('acquire')).toBe(0)
  })

  test('a pool of the user is sufficient with a single connection', async () => {
    const pool = sqlPool({ connectionString: fresh.url, max: 1 })
    const holdfast = await open({ pool })
    await holdfast.locks.with('with one connection', () => {})
  })

  test('postgres.js of the user is untouched when Holdfast closes', async () => {
    const client = newPostgresJs(fresh.url)
    await (await open({ sql: client as never })).close()
    expect([...(await client`select 1 as one`)]).toEqual([{ one: 1 }])
  })
})
