import { afterEach, describe, expect, test, vi } from 'vitest'
import { sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

afterEach(() => {
  vi.restoreAllMocks()
})

const dead = 2_147_483_647

/** Inserts more old rows than one sweep deletes, and a few young rows. */
async function insertOldRows(url: string): Promise<void> {
  await sql(
    url,
    `
    insert into holdfast.name (key, namespace, label, used_at)
    select i, 'past', 'name ' || i, now() - interval '31 days' from generate_series(1, 2500) as i;
    insert into holdfast.fence_guard (key, fence, used_on) select i, 1, current_date - 40 from generate_series(1, 2500) as i;
    insert into holdfast.election (namespace, name, term, instance, session, since)
    select 'past', 'election ' || i, 1, 'gone', case when i % 2 = 0 then ${dead} end, now() - interval '31 days'
    from generate_series(1, 2500) as i;
    insert into holdfast.candidate select 'past', 'election ' || i, ${dead} from generate_series(1, 3500) as i;
    insert into holdfast.share_member select 'past', 'share ' || i, 'gone', ${dead} from generate_series(1, 3500) as i;
    insert into holdfast.name (key, namespace, label) values (9001, 'young', 'name');
    insert into holdfast.fence_guard (key, fence) values (9001, 1);
    insert into holdfast.election (namespace, name, term, instance, session, since) values ('young', 'name', 1, 'gone', null, now())
    `,
  )
}

const left = async (url: string) =>
  await sql(
    url,
    `select 'name' as what from holdfast.name where namespace in ('past', 'young')
     union all select 'guarded' from holdfast.fence_guard
     union all select 'election' from holdfast.election where namespace in ('past', 'young')
     union all select 'candidate' from holdfast.candidate where session = ${dead}
     union all select 'member' from holdfast.share_member where session = ${dead}`,
  )

describe('old rows', () => {
  test('old rows are swept by an instance with an anchor, batch after batch', async () => {
    const url = await databaseUrl()
    await insertOldRows(url)
    const instance = await open({ url })
    await until('all rows except the young ones are swept', async () => (await left(url)).length === 3)
    expect(await left(url)).toEqual([{ what: 'name' }, { what: 'guarded' }, { what: 'election' }])
    await instance.locks.with('works', () => {})
  })

  test('old rows are swept by an instance without an anchor', async () => {
    const url = await databaseUrl()
    await insertOldRows(url)
    // Makes the hourly sweep start immediately.
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const instance = await open({ url, anchor: 'none', expiry: '2s' })
    vi.restoreAllMocks()
    await instance.limits.with('presence', { max: 1 }, () =>
      until('all rows except the young ones are swept', async () => (await left(url)).length === 3),
    )
  })

  test('the rows of a living leader, candidate or member are not swept', async () => {
    const url = await databaseUrl()
    const leader = await open({ url })
    const campaign = leader.elections.campaign(
      'long',
      {
        preferred: true,
      },
      ({ signal }) => new Promise((end) => signal.addEventListener('abort', end)),
    )
    await until('the leader leads', () => campaign.leads)
    leader.shares.assign(
      'long',
      ['one'],
      (_, { signal }) => new Promise((end) => signal.addEventListener('abort', end)),
    )
    const rows = () =>
      sql(
        url,
        `select 'election' as what from holdfast.election where session is not null
         union all select 'candidate' from holdfast.candidate
         union all select 'member' from holdfast.share_member`,
      )
    await until('the election, the candidate and the member are recorded', async () => (await rows()).length === 3)
    await sql(url, "update holdfast.election set since = now() - interval '90 days'")
    await insertOldRows(url)
    await open({ url })
    await until('the old rows are swept', async () => (await left(url)).length === 3)
    expect(await rows()).toHaveLength(3)
  })
})

test('the row of an instance without an anchor session is kept while another session of the instance exists', async () => {
  const url = await databaseUrl()
  const ids = () => sql<{ id: string }>(url, "select id from holdfast.instance where namespace = 'past' order by id")
  await sql(
    url,
    `insert into holdfast.instance (id, namespace, name, session, host, os_pid, version, expiry_ms, pooler, generation, epoch_since)
     select id, 'past', id, ${dead}, 'host', 1, '1', 2000, 'none', 1, now() - interval '1 hour' from unnest('{waits,gone}'::text[]) as id`,
  )
  const session = await sqlSession(url, { application_name: 'holdfast waits' })
  await open({ url })
  await until('the row without a session is swept', async () => (await ids()).length < 2)
  expect(await ids()).toEqual([{ id: 'waits' }])
  await session.end()
  await open({ url })
  await until('the other row is swept', async () => (await ids()).length === 0)
})

test('a fence guard that is used does not age', async () => {
  const url = await databaseUrl()
  await sql(url, 'insert into holdfast.fence_guard (key, fence, used_on) values (7, 1, current_date - 40)')
  await sql(url, 'select holdfast.guard_key(7, 2)')
  expect(
    await sql(
      url,
      "select fence::float8, used_on = (now() at time zone 'UTC')::date as today from holdfast.fence_guard",
    ),
  ).toEqual([{ fence: 2, today: true }])
})

test('expired leases are swept while other leases are acquired', async () => {
  const url = await databaseUrl()
  await sql(
    url,
    `insert into holdfast.lease (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at)
     select i, '', 'gone', 1, 1, 0, now(), now() - interval '2 hours' from generate_series(1, 3500) as i`,
  )
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const { leases } = await open({ url })
  vi.restoreAllMocks()
  await until('all expired leases are swept', async () => {
    await leases.with('used', () => {})
    return (await sql(url, "select from holdfast.lease where instance = 'gone'")).length === 0
  })
})
