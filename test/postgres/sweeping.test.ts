import { afterEach, describe, expect, test, vi } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

afterEach(() => {
  vi.restoreAllMocks()
})

const dead = 2_147_483_647

/** More than a piece of what nobody comes back to, and beside it what is young. */
async function leftBehind(url: string): Promise<void> {
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

describe('what nobody comes back to', () => {
  test('is swept by an instance with an anchor, piece after piece', async () => {
    const url = await databaseUrl()
    await leftBehind(url)
    const instance = await open({ url })
    await until('all is swept but what is young', async () => (await left(url)).length === 3)
    expect(await left(url)).toEqual([{ what: 'name' }, { what: 'guarded' }, { what: 'election' }])
    await instance.locks.with('works', () => {})
  })

  test('is swept by an instance without an anchor', async () => {
    const url = await databaseUrl()
    await leftBehind(url)
    // The hour in which it sweeps begins at once.
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const instance = await open({ url, anchor: 'none', expiry: '2s' })
    vi.restoreAllMocks()
    await instance.limits.with('so that it is present', { max: 1 }, () =>
      until('all is swept but what is young', async () => (await left(url)).length === 3),
    )
  })

  test('stays while somebody lives who is meant', async () => {
    const url = await databaseUrl()
    const leader = await open({ url })
    const campaign = leader.elections.campaign(
      'long',
      ({ signal }) => new Promise((end) => signal.addEventListener('abort', end)),
      {
        preferred: true,
      },
    )
    await until('it leads', () => campaign.leads)
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
    await until('it has told all', async () => (await rows()).length === 3)
    await sql(url, "update holdfast.election set since = now() - interval '90 days'")
    await leftBehind(url)
    await open({ url })
    await until('the rest is swept', async () => (await left(url)).length === 3)
    expect(await rows()).toHaveLength(3)
  })
})

test('a fence that guards does not age', async () => {
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

test('names that were leased are swept as fast as they come', async () => {
  const url = await databaseUrl()
  await sql(
    url,
    `insert into holdfast.lease (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at)
     select i, '', 'gone', 1, 1, 0, now(), now() - interval '2 hours' from generate_series(1, 3500) as i`,
  )
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const { leases } = await open({ url })
  vi.restoreAllMocks()
  await until('all are swept', async () => {
    await leases.with('used', () => {})
    return (await sql(url, "select from holdfast.lease where instance = 'gone'")).length === 0
  })
})
