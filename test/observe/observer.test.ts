import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Holdfast, type HoldfastOptions } from '../../src/index.js'
import { type ObservedLock, Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'

let fresh: FreshDatabase
let database: Database
let observer: Observer
beforeAll(async () => {
  fresh = await freshDatabase()
  database = openPgPool({ connectionString: fresh.url })
  observer = new Observer(database)
})
afterAll(async () => {
  await database.close()
  await fresh.drop()
})

const leftovers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const remove of leftovers.splice(0).reverse()) await remove()
})

async function open(options: HoldfastOptions = {}): Promise<Holdfast> {
  const holdfast = await Holdfast.open({ url: fresh.url, ...options })
  leftovers.push(() => holdfast.close())
  return holdfast
}

async function connect(application: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: fresh.url, application_name: application })
  await client.connect()
  leftovers.push(() => client.end())
  return client
}

function waitFor(holdfast: Holdfast, name: string, mode: 'exclusive' | 'shared' = 'exclusive'): void {
  holdfast.locks.acquire(name, { mode }).catch(() => {})
}

const eventually = <T>(fact: () => Promise<T>) => expect.poll(fact, { timeout: 20_000, interval: 50 })
const waiting = (locks: readonly ObservedLock[]) => locks.filter(({ granted }) => !granted)
const labelsOf = (locks: readonly ObservedLock[]) => locks.map(({ label }) => label)

describe('locks', () => {
  test('observer.locks names the holder, and after some seconds its start and its fence', async () => {
    const holdfast = await open({ namespace: 'billing' })
    const lock = await holdfast.locks.acquire('report', { mode: 'shared' })
    await eventually(async () => labelsOf(await observer.locks())).toEqual(['report'])
    const [seen] = await observer.locks()
    expect(seen).toMatchObject({
      key: holdfast.locks.key('report'),
      namespace: 'billing',
      label: 'report',
      mode: 'shared',
      granted: true,
      instance: holdfast.id,
      osPid: process.pid,
      since: null,
      forMs: null,
      fence: null,
      blockedBy: [],
    })
    await eventually(() => observer.locks()).toMatchObject([{ fence: lock.fence, since: expect.any(Date) }])
    const [noted] = await observer.locks()
    expect(noted!.forMs).toBeGreaterThan(2_500)
    await lock.release()
    expect(await observer.locks()).toEqual([])
  })

  test('observer.locks splits and joins keys with any sign', async () => {
    const holdfast = await open()
    for (const [high, low] of [
      [-1, -1],
      [0, -1],
      [-(2 ** 31), 0],
      [2 ** 31 - 1, 7],
    ] as const) {
      const key = holdfast.locks.pair(high, low)
      await using _ = await holdfast.locks.acquire(key)
      await eventually(() => observer.locks()).toMatchObject([{ key: key.key, label: `${high}/${low}`, namespace: '' }])
    }
  })

  test('observer.locks shows who waits for whom, and a wait session under its instance', async () => {
    const [holder, waiter] = [await open(), await open()]
    await holder.locks.acquire('x')
    waitFor(waiter, 'x')
    await eventually(async () => waiting(await observer.locks())).toHaveLength(1)
    const [held, waits] = await observer.locks()
    expect(held).toMatchObject({ granted: true, instance: holder.id })
    expect(waits).toMatchObject({ granted: false, instance: waiter.id, blockedBy: [held!.pid], requests: 1 })
    // A wait consists of slices, which restart every few seconds. The duration of the wait continues.
    await eventually(async () => waiting(await observer.locks())[0]!.forMs).toBeGreaterThan(6_000)
  })

  test('observer.locks counts the calls of one process that wait for one name', async () => {
    const [holder, waiter] = [await open(), await open()]
    await holder.locks.acquire('x')
    for (let call = 0; call < 3; call++) waitFor(waiter, 'x')
    await eventually(async () => waiting(await observer.locks())).toMatchObject([{ requests: 3 }])
  })

  test('observer.locks shows a wait that has no session at the moment, from its note', async () => {
    const [holder, waiter] = [await open(), await open({ waitConnections: 1 })]
    await holder.locks.acquire(['x', 'y'])
    waitFor(waiter, 'x')
    await eventually(async () => waiting(await observer.locks())).toHaveLength(1)
    waitFor(waiter, 'y')
    await eventually(async () => waiting(await observer.locks())).toHaveLength(2)
    const [session] = (await observer.locks()).map(({ pid }) => pid)
    const noted = waiting(await observer.locks()).find(({ label }) => label === 'y')
    expect(noted).toMatchObject({ pid: null, instance: waiter.id, blockedBy: [session] })
  })

  test('observer.locks shows a wait inside the holding process, but no wait that has just ended', async () => {
    const [holder, other] = [await open(), await open()]
    const lock = await other.locks.acquire('x')
    waitFor(holder, 'x')
    // The wait is recorded and then granted. Its record is deleted later.
    await eventually(() => database.query('select from holdfast.wait')).toHaveLength(1)
    await lock.release()
    await eventually(async () => (await observer.locks({ key: lock.keys[0] })).map(({ instance }) => instance)).toEqual(
      [holder.id],
    )
    expect(waiting(await observer.locks())).toEqual([])
    waitFor(holder, 'x')
    await eventually(async () => waiting(await observer.locks())).toMatchObject([{ instance: holder.id, pid: null }])
  })

  test('observer.locks shows locks of other programs, with and without names, and transaction locks', async () => {
    const holdfast = await open()
    const psql = await connect('psql')
    await psql.query('select pg_advisory_lock(42)')
    await psql.query('begin')
    await holdfast.locks.inTransaction(psql, 'in-transaction')
    await eventually(() => observer.locks()).toMatchObject([
      { label: 'in-transaction', granted: true, application: 'psql', instance: null },
      {
        label: null,
        namespace: null,
        key: '42',
        application: 'psql',
        user: expect.any(String),
        since: null,
        forMs: null,
      },
    ])
    await psql.query('commit')
    expect(await observer.locks()).toHaveLength(1)
  })

  test('observer.locks can be restricted to a name or a namespace', async () => {
    const [billing, mail] = [await open({ namespace: 'billing' }), await open({ namespace: 'mail' })]
    await billing.locks.acquire(['a', 'b'])
    await mail.locks.acquire('a')
    await eventually(async () => labelsOf(await observer.locks({ namespace: 'billing' }))).toEqual(['a', 'b'])
    await eventually(() => observer.locks({ key: mail.locks.key('a') })).toMatchObject([{ namespace: 'mail' }])
  })

  test('observer.locks shows neither internal locks of Holdfast nor locks of other databases', async () => {
    const elsewhere = await freshDatabase()
    const holdfast = await Holdfast.open({ url: elsewhere.url })
    await holdfast.locks.acquire('x')
    await open()
    expect(await observer.locks()).toEqual([])
    await holdfast.close()
    await elsewhere.drop()
  })

  test('the observer needs only the right to read', async () => {
    const holdfast = await open()
    await holdfast.locks.acquire('x')
    const role = `reader_${process.pid}`
    await database.query(`create role ${role}`)
    leftovers.push(async () => {
      await database.query(`drop owned by ${role}`)
      await database.query(`drop role ${role}`)
    })
    await database.query(`grant usage on schema holdfast to ${role}`)
    await database.query(`grant select on all tables in schema holdfast to ${role}`)
    await database.transaction(async (tx) => {
      await tx.query(`set local role ${role}`)
      const reader = new Observer({ read: tx.query })
      await eventually(() => reader.locks()).toMatchObject([{ label: 'x', instance: holdfast.id }])
      expect((await reader.fleet.list()).rows).toMatchObject([{ id: holdfast.id, alive: true }])
    })
  })

  test('the observer works in a schema with another name', async () => {
    const holdfast = await open({ schema: 'Coordination' })
    await holdfast.locks.acquire('x')
    const other = new Observer(database, 'Coordination')
    await eventually(() => other.locks()).toMatchObject([{ label: 'x', instance: holdfast.id, osPid: process.pid }])
    expect((await other.fleet.list()).rows).toMatchObject([{ id: holdfast.id, alive: true, held: 1 }])
  })
})

describe('instances', () => {
  test('instances are alive while their session is, and are shown with what they hold and wait for', async () => {
    const [first, second] = [await open(), await open({ namespace: 'mail' })]
    await first.locks.acquire(['x', 'y'])
    const key = first.locks.key('x')
    second.locks.acquire({ key, label: 'x', namespace: 'default' }).catch(() => {})
    // The rows have no useful order, because the ids of instances are random.
    const rows = async () => (await observer.fleet.list()).rows.toSorted((a, b) => (a.namespace < b.namespace ? -1 : 1))
    await eventually(rows).toMatchObject([
      { id: first.id, namespace: 'default', alive: true, held: 2, waiting: 0, reconnects: 0, osPid: process.pid },
      { id: second.id, namespace: 'mail', alive: true, held: 0, waiting: 1 },
    ])
  })

  test('instances that are gone are shown as gone', async () => {
    await database.query(
      `insert into holdfast.instance (id, name, namespace, session, backend_pid, host, os_pid, version, expiry_ms, pooler, generation)
       values ('crashed', 'crashed', 'default', nextval('holdfast.session'), 1, 'h', 1, '0', 10000, 'none', 0)`,
    )
    leftovers.push(() => database.query("delete from holdfast.instance where id = 'crashed'"))
    expect((await observer.fleet.list()).rows).toMatchObject([{ id: 'crashed', alive: false, held: 0, waiting: 0 }])
  })
})
