// A write with an old fence is refused, also if its holder does not know that it lost the lock.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LockLostError, StaleFenceError, UsageError } from '../../src/index.js'
import { translate } from '../../src/postgres/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { anchorPid, open } from '../setup/instances.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await sql(fresh.url, 'create table written (by text)')
})
afterAll(() => fresh.drop())

async function beginTransaction() {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

const sqlGuard = 'select holdfast.guard($1, $2, $3)'

test('guard accepts the current holder repeatedly', async () => {
  const { locks } = await open({ url: fresh.url })
  await using lock = await locks.acquire(['passes', 'passes too'])
  for (let i = 0; i < 2; i++) {
    const client = await beginTransaction()
    await lock.guard(client)
    await client.query('commit')
  }
})

test('guard refuses a stale fence, and the writes of the transaction are rolled back', async () => {
  const { locks } = await open({ url: fresh.url })
  const stale = await locks.acquire('stale')
  await stale.release()
  const later = await locks.acquire('stale')
  const [first, second] = [await beginTransaction(), await beginTransaction()]
  await later.guard(first)
  await first.query('commit')
  await second.query("insert into written values ('stale')")
  const error = await second.query(sqlGuard, ['default', 'stale', stale.fence]).catch(translate)
  expect(error).toBeInstanceOf(StaleFenceError)
  expect(error).toMatchObject({ code: 'STALE_FENCE', retryable: false })
  await second.query('commit')
  expect(await sql(fresh.url, 'select * from written')).toEqual([])
  await later.release()
})

test('guard waits for an earlier transaction with a guard, and then sees its fence', async () => {
  const { locks } = await open({ url: fresh.url })
  const old = await locks.acquire('in turn')
  await old.release()
  await using later = await locks.acquire('in turn')
  const [first, second] = [await beginTransaction(), await beginTransaction()]
  await later.guard(first)
  const refused = second.query(sqlGuard, ['default', 'in turn', old.fence]).catch(translate)
  await until('the second transaction waits', async () => {
    const waits = await sql(
      fresh.url,
      "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    )
    return waits.length > 0
  })
  await first.query('commit')
  expect(await refused).toBeInstanceOf(StaleFenceError)
})

test('guard refuses a holder whose session has ended, also without a later holder', async () => {
  const holder = await open({ url: fresh.url })
  const lock = await holder.locks.acquire('gone')
  const { key, session } = (
    await sql<{ key: string; session: number }>(
      fresh.url,
      'select $1::text as key, session from holdfast.instance where id = $2',
      [lock.keys[0], holder.id],
    )
  )[0]!
  const guard = () => sql(fresh.url, 'select holdfast.guard_key($1, $2, $3)', [key, lock.fence, session])
  await guard()
  await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, holder)])
  await until('the lock is lost', () => !lock.held)
  expect(await guard().catch(translate)).toBeInstanceOf(StaleFenceError)
  const client = await beginTransaction()
  await caught(LockLostError, lock.guard(client))
})

test('guard refuses a shared lock and a released lock', async () => {
  const { locks } = await open({ url: fresh.url })
  const client = await beginTransaction()
  await using shared = await locks.acquire('shared', { mode: 'shared' })
  await caught(UsageError, shared.guard(client))
  const released = await locks.acquire('released')
  await released.release()
  expect((await caught(UsageError, released.guard(client))).message).toContain('got a released lock')
})

test('guard refuses an object that is not a client', async () => {
  const { locks } = await open({ url: fresh.url })
  await using lock = await locks.acquire('no client')
  await caught(UsageError, lock.guard({} as never))
})
