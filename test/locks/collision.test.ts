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

test('a key collision is an error that contains both names, and leaves no lock', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('ours')
  for (const attempt of [1, 2]) {
    const error = await caught(KeyCollisionError, locks.acquire('ours'))
    expect(error, `attempt ${attempt}`).toMatchObject({
      code: 'KEY_COLLISION',
      retryable: false,
      key: locks.key('ours'),
      registered: 'another name (namespace elsewhere)',
    })
    expect(error.message).toContain('"ours"')
  }
  await untilNoLocks(fresh.url)
})

test('tryAcquire and a request for several names throw KeyCollisionError', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('tried')
  await caught(KeyCollisionError, locks.tryAcquire('tried'))
  await occupy('among several')
  await caught(KeyCollisionError, locks.acquire(['before it', 'among several', 'after it']))
  await untilNoLocks(fresh.url)
  await using _before = await locks.acquire('before it', { wait: 0 })
})

test('a key collision does not affect another request in the same turn of the event loop', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('in one turn')
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
  test('each call throws KeyCollisionError', async () => {
    const { locks } = await open({ url: fresh.url })
    await occupy('of a transaction')
    const client = await beginTransaction()
    await caught(KeyCollisionError, locks.inTransaction(client, 'of a transaction'))
    await caught(KeyCollisionError, locks.tryInTransaction(client, 'of a transaction'))
  })

  test('a call without an anchor throws KeyCollisionError after the name was registered in the background', async () => {
    const { locks } = await open({ url: fresh.url, anchor: 'none' })
    await occupy('without an anchor')
    const client = await beginTransaction()
    await until('the call throws', () =>
      locks.tryInTransaction(client, 'without an anchor').then(
        () => false,
        (error) => error instanceof KeyCollisionError,
      ),
    )
  })

  test.each(['required', 'none'] as const)(
    'a failed registration is repeated at the next call, with anchor: %s',
    async (anchor) => {
      const { locks } = await open({ url: fresh.url, anchor })
      const client = await beginTransaction()
      const name = `registered later, anchor ${anchor}`
      await sql(fresh.url, 'alter table holdfast.name rename to away')
      try {
        await locks.inTransaction(client, name)
      } finally {
        await sql(fresh.url, 'alter table holdfast.away rename to name')
      }
      await until('the name is registered', async () => {
        await locks.inTransaction(client, name)
        return (await sql(fresh.url, 'select from holdfast.name where label = $1', [name])).length === 1
      })
    },
  )
})
