// Two names have the same key. With four billion names, this becomes likely. The tests simulate it with a row in the registry of names.
import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashedKey } from '../../src/base/index.js'
import { KeyCollisionError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { heldLocks, untilNoLocks } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function occupy(name: string, label = 'another name', namespace = 'elsewhere'): Promise<void> {
  const { key } = hashedKey('default', name)
  await sql(fresh.url, 'insert into holdfast.name (key, namespace, label) values ($1, $2, $3)', [key, namespace, label])
}

/** Names are registered in the background, so only calls after the registration throw. */
async function untilThrows(call: () => Promise<{ release?(): Promise<void> } | null>): Promise<KeyCollisionError> {
  return until('the call throws', async () => {
    try {
      const held = await call()
      await held?.release?.()
      return null
    } catch (error) {
      if (error instanceof KeyCollisionError) return error
      throw error
    }
  })
}

test('a key collision is an error that contains both names, and leaves no lock', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('ours')
  await untilThrows(() => locks.acquire('ours'))
  const error = await caught(KeyCollisionError, locks.acquire('ours'))
  expect(error).toMatchObject({
    code: 'KEY_COLLISION',
    retryable: false,
    key: locks.key('ours'),
    registered: 'another name (namespace elsewhere)',
  })
  expect(error.message).toContain('"ours"')
  await untilNoLocks(fresh.url)
})

test('a lock whose name collides stays held until its holder releases it', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('held')
  await using lock = await locks.acquire('held')
  await untilThrows(() => locks.tryAcquire('held'))
  expect(lock.held).toBe(true)
  expect(await heldLocks(fresh.url, locks.key('held'))).toBe(1)
})

test('tryAcquire, leases and a request for several names throw KeyCollisionError', async () => {
  const { locks, leases } = await open({ url: fresh.url })
  await occupy('tried')
  await untilThrows(() => locks.tryAcquire('tried'))
  await caught(KeyCollisionError, leases.tryAcquire('tried'))
  await occupy('among several')
  await untilThrows(() => locks.acquire(['before it', 'among several', 'after it']))
  await untilNoLocks(fresh.url)
  await using _before = await locks.acquire('before it', { wait: 0 })
})

test('a key collision does not affect another request in the same turn of the event loop', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('in one turn')
  await untilThrows(() => locks.tryAcquire('in one turn'))
  const [bad, good] = await Promise.allSettled([locks.acquire('in one turn'), locks.acquire('good in one turn')])
  expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'KEY_COLLISION' } })
  expect(good.status).toBe('fulfilled')
  expect(await heldLocks(fresh.url, locks.key('good in one turn'))).toBe(1)
})

test('a name that is already registered with its own key is not a collision', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('known', 'known', 'default')
  await using lock = await locks.acquire('known')
  expect(lock.held).toBe(true)
})

async function beginTransaction(): Promise<Client> {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

describe('a key collision in a transaction of the caller', () => {
  test.each(['required', 'none'] as const)(
    'each call throws KeyCollisionError after the name was registered in the background, with anchor: %s',
    async (anchor) => {
      const { locks } = await open({ url: fresh.url, anchor })
      await occupy(`of a transaction, anchor ${anchor}`)
      const client = await beginTransaction()
      await untilThrows(async () => {
        await locks.tryInTransaction(client, `of a transaction, anchor ${anchor}`)
        return null
      })
      await caught(KeyCollisionError, locks.inTransaction(client, `of a transaction, anchor ${anchor}`))
    },
  )
})

const isRegistered = async (name: string) =>
  (await sql(fresh.url, 'select from holdfast.name where label = $1', [name])).length === 1

describe.each(['required', 'none'] as const)('the registration of names, with anchor: %s', (anchor) => {
  test('a call gets its lease although its name cannot be registered, and the registration is repeated', async () => {
    const { leases } = await open({ url: fresh.url, anchor })
    const name = `registered later, anchor ${anchor}`
    await sql(fresh.url, 'alter table holdfast.name rename to away')
    try {
      await using lease = await leases.acquire(name)
      expect(lease.held).toBe(true)
    } finally {
      await sql(fresh.url, 'alter table holdfast.away rename to name')
    }
    await until('the name is registered', () => isRegistered(name))
  })

  test('close registers the names of calls that have just finished', async () => {
    const instance = await open({ url: fresh.url, anchor })
    const names = Array.from({ length: 600 }, (_, number) => `closed ${number}, anchor ${anchor}`)
    await Promise.all(names.map(async (name) => (await instance.leases.acquire(name)).release()))
    await instance.close()
    const [row] = await sql<{ count: number }>(
      fresh.url,
      'select count(*)::integer from holdfast.name where label = any($1)',
      [names],
    )
    expect(row?.count).toBe(names.length)
  })
})
