// The fence at work: a write under an old fence is refused, whatever its holder believes.
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

async function begun() {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

const sqlGuard = 'select holdfast.guard($1, $2, $3)'

test('a live holder passes, again and again', async () => {
  const { locks } = await open({ url: fresh.url })
  await using lock = await locks.acquire(['passes', 'passes too'])
  for (let i = 0; i < 2; i++) {
    const client = await begun()
    await lock.guard(client)
    await client.query('commit')
  }
})

test('a stale fence is refused, and takes the writes of its transaction along', async () => {
  const { locks } = await open({ url: fresh.url })
  const stale = await locks.acquire('stale')
  await stale.release()
  const later = await locks.acquire('stale')
  const [first, second] = [await begun(), await begun()]
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

test('a transaction that guards waits for one that guarded before, and then sees its fence', async () => {
  const { locks } = await open({ url: fresh.url })
  const old = await locks.acquire('in turn')
  await old.release()
  await using later = await locks.acquire('in turn')
  const [first, second] = [await begun(), await begun()]
  await later.guard(first)
  const refused = second.query(sqlGuard, ['default', 'in turn', old.fence]).catch(translate)
  await until('the second waits', async () => {
    const waits = await sql(
      fresh.url,
      "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    )
    return waits.length > 0
  })
  await first.query('commit')
  expect(await refused).toBeInstanceOf(StaleFenceError)
})

test('a holder whose session is gone is refused, although nobody came after it', async () => {
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
  await until('it is lost', () => !lock.held)
  expect(await guard().catch(translate)).toBeInstanceOf(StaleFenceError)
  const client = await begun()
  await caught(LockLostError, lock.guard(client))
})

test('a shared or a released lock cannot guard', async () => {
  const { locks } = await open({ url: fresh.url })
  const client = await begun()
  await using shared = await locks.acquire('shared', { mode: 'shared' })
  await caught(UsageError, shared.guard(client))
  const released = await locks.acquire('released')
  await released.release()
  expect((await caught(UsageError, released.guard(client))).message).toContain('got a released lock')
})

test('what is no client is a mistake', async () => {
  const { locks } = await open({ url: fresh.url })
  await using lock = await locks.acquire('no client')
  await caught(UsageError, lock.guard({} as never))
})
