// The functions for one lease decide exactly as the functions for many leases, in two round trips for a pair.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlPool, sqlSession } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  // Begins a generation, without which nothing is granted.
  await sql(fresh.url, 'select holdfast.generation()')
})
afterAll(() => fresh.drop())

test('a lease pair takes two round trips and two prepared statements', async () => {
  const pool = sqlPool({ connectionString: fresh.url })
  const { leases } = await open({ pool })
  const query = vi.spyOn(pool, 'query')
  await (await leases.acquire('counted')).release()
  const names = query.mock.calls.map(([statement]) => (statement as unknown as { name: string }).name)
  expect(names).toEqual([
    expect.stringMatching(/^holdfast_acquire_one_/),
    expect.stringMatching(/^holdfast_release_one_/),
  ])
})

const insertRow = (token: string, expiresInMs: number, more = '') =>
  `insert into holdfast.lease (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at, has_waiters, has_co_holders)
   values (1, '${token}', 'other', 7, 1000, ${more.includes('minimum hold') ? 3_600_000 : 0}, now(), now() + interval '${expiresInMs} ms',
     ${more.includes('waiters')}, ${more.includes('co-holders')})`

/** Runs a statement in a transaction that is rolled back. Returns its row, and the row of the lease. */
async function outcome(prepare: string, call: string) {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  if (prepare) await client.query(prepare)
  const { rows } = await client.query(call)
  const { rows: left } = await client.query(
    `select token, instance, fence > 7 as is_later, ttl_ms, min_hold_ms, has_waiters, has_co_holders,
       round(extract(epoch from granted_at - now()) / 60)::integer as granted_in_min,
       round(extract(epoch from expires_at - now()) / 60)::integer as expires_in_min
     from holdfast.lease`,
  )
  await client.query('rollback')
  await client.end()
  return { rows, left }
}

describe('acquire_lease decides as acquire_leases', () => {
  test.each<[string, string]>([
    ['a free name', ''],
    ['an expired lease', insertRow('theirs', -1_000, 'waiters co-holders')],
    ['an expired lease with the same token', insertRow('ours', -1_000, 'minimum hold')],
    ['a lease of another holder', insertRow('theirs', 600_000, 'waiters')],
    ['a lease with the same token', insertRow('ours', 600_000, 'minimum hold waiters')],
    ['a minimum hold after a release', insertRow('', 600_000, 'minimum hold')],
    [
      'a name during the grace period',
      `insert into holdfast.instance (id, namespace, name, session, host, os_pid, version, expiry_ms, pooler, generation)
       select 'earlier', '', '', 0, '', 1, '', 86400000, 'none', generation - 1 from holdfast.server_generation`,
    ],
  ])('%s', async (_, prepare) => {
    const columns = `grace_over, granted_fence > 7 as is_granted_later, granted_fence = 7 as is_continued, is_fresh,
      round(free_in_ms / 60000) as free_in_min, lease_has_waiters`
    const many = `array[1::bigint], array['ours'], array[120000], array[60000::bigint], 'us', 'our name'`
    const general = await outcome(prepare, `select ${columns} from holdfast.acquire_leases(${many})`)
    const single = await outcome(
      prepare,
      `select ${columns} from holdfast.acquire_lease(1, 'ours', 120000, 60000, 'us', 'our name')`,
    )
    expect(single).toEqual(general)
  })

  test('a locked name', async () => {
    const holder = await sqlSession(fresh.url)
    await holder.query('select pg_advisory_lock(1)')
    const [row] = await sql(
      fresh.url,
      `select grace_over, granted_fence, is_fresh from holdfast.acquire_lease(1, 'ours', 1000, 0, 'us', 'our name')`,
    )
    expect(row).toEqual({ grace_over: true, granted_fence: null, is_fresh: false })
    await holder.end()
  })
})

describe('release_lease decides as release_leases', () => {
  test.each<[string, string]>([
    ['a free name', ''],
    ['a lease', insertRow('ours', 600_000)],
    ['an expired lease', insertRow('ours', -1_000)],
    ['a lease of another holder', insertRow('theirs', 600_000)],
    ['a lease that a call waits for', insertRow('ours', 600_000, 'waiters')],
    ['a lease with other holders', insertRow('ours', 600_000, 'co-holders')],
    ['a lease with a minimum hold', insertRow('ours', 600_000, 'minimum hold waiters')],
  ])('%s', async (_, prepare) => {
    for (const fence of ['7', '6', 'null']) {
      const general = await outcome(
        prepare,
        `select count(*) = 1 as released from holdfast.release_leases(array[1::bigint], array['ours'], array[${fence}::bigint], 'channel')`,
      )
      const single = await outcome(
        prepare,
        `select holdfast.release_lease(1, 'ours', ${fence}::bigint, 'channel') as released`,
      )
      expect(single).toEqual(general)
    }
  })
})
