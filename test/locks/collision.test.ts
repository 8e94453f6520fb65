// Two names with one key: four billion names make it likely, a row in the registry makes it happen here.
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

async function occupy(name: string, label = 'somebody else', namespace = 'elsewhere'): Promise<void> {
  const { key } = hashedKey('default', name)
  await sql(fresh.url, 'insert into holdfast.name (key, namespace, label) values ($1, $2, $3)', [key, namespace, label])
}

test('is an error that names both, and nothing stays locked', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('ours')
  for (const attempt of [1, 2]) {
    const error = await caught(KeyCollisionError, locks.acquire('ours'))
    expect(error, `attempt ${attempt}`).toMatchObject({
      code: 'KEY_COLLISION',
      retryable: false,
      key: locks.key('ours'),
      registered: 'somebody else (namespace elsewhere)',
    })
    expect(error.message).toContain('"ours"')
  }
  await untilNoLocks(fresh.url)
})

test('is told to those who would not wait, and to those who ask for several', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('tried')
  await caught(KeyCollisionError, locks.tryAcquire('tried'))
  await occupy('among several')
  await caught(KeyCollisionError, locks.acquire(['beside', 'among several', 'beside that']))
  await untilNoLocks(fresh.url)
  await using _beside = await locks.acquire('beside', { wait: 0 })
})

test('hurts nobody else who asks in the same turn', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('in one turn')
  const [bad, good] = await Promise.allSettled([locks.acquire('in one turn'), locks.acquire('good in one turn')])
  expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'KEY_COLLISION' } })
  expect(good.status).toBe('fulfilled')
  expect(await heldLocks(fresh.url, locks.key('good in one turn'))).toBe(1)
})

test('a name that the registry knows already is none', async () => {
  const { locks } = await open({ url: fresh.url })
  await occupy('known', 'known', 'default')
  await using lock = await locks.acquire('known')
  expect(lock.held).toBe(true)
})

async function begun(): Promise<Client> {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

describe('in a transaction of the caller', () => {
  test('is told at the first call, and at each', async () => {
    const { locks } = await open({ url: fresh.url })
    await occupy('of a transaction')
    const client = await begun()
    await caught(KeyCollisionError, locks.inTransaction(client, 'of a transaction'))
    await caught(KeyCollisionError, locks.tryInTransaction(client, 'of a transaction'))
  })

  test('is told without an anchor as soon as it is known, for nobody waits for that', async () => {
    const { locks } = await open({ url: fresh.url, anchor: 'none' })
    await occupy('without an anchor')
    const client = await begun()
    await until('it is told', () =>
      locks.tryInTransaction(client, 'without an anchor').then(
        () => false,
        (error) => error instanceof KeyCollisionError,
      ),
    )
  })

  test.each(['required', 'none'] as const)('a registration that fails is done again, anchor %s', async (anchor) => {
    const { locks } = await open({ url: fresh.url, anchor })
    const client = await begun()
    const name = `registered later, anchor ${anchor}`
    await sql(fresh.url, 'alter table holdfast.name rename to away')
    try {
      await locks.inTransaction(client, name)
    } finally {
      await sql(fresh.url, 'alter table holdfast.away rename to name')
    }
    await until('it is registered', async () => {
      await locks.inTransaction(client, name)
      return (await sql(fresh.url, 'select from holdfast.name where label = $1', [name])).length === 1
    })
  })
})
