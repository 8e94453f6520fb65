import { expect, test } from 'vitest'
import { sql } from '../setup/facts.js'
import { databaseUrl, open, roleUrl } from '../setup/instances.js'

// A statement sees data that is as old as its snapshot. First, the statement takes its snapshot. Then the holder renews its
// lease. Then the statement reads the clock, late, because the server is busy or frozen. In the snapshot, the lease seems to
// have expired. A statement that checks whether a holder exists must not report the lease as expired.

const ttlMs = 2_000

/**
 * Creates a database, and a URL for a role that stalls between the snapshot and the comparison for longer than the lease lasts.
 */
async function fixture(): Promise<{ url: string; stalling: string }> {
  const url = await databaseUrl()
  const { url: stalling, role } = await roleUrl(url)
  await sql(
    url,
    `create function public.stalls() returns boolean
       language plpgsql
       -- Cheap, so that PostgreSQL calls this function first.
       cost 0.0001
       as $$ begin perform pg_sleep(${(1.2 * ttlMs) / 1_000}); return true; end $$;
     grant usage on schema holdfast to ${role};
     grant select on holdfast.lease, holdfast.instance to ${role};
     alter table holdfast.lease enable row level security;
     create policy stalls on holdfast.lease using (public.stalls());
     alter table holdfast.instance enable row level security;
     create policy stalls on holdfast.instance using (public.stalls())`,
  )
  return { url, stalling }
}

test('a lease that is renewed meanwhile is reported as held, for one key and for many keys', async () => {
  const { url, stalling } = await fixture()
  const a = await open({ url })
  await using lease = await a.leases.acquire('renewed', { ttl: ttlMs })
  expect(await sql(stalling, 'select holdfast.is_leased($1) as yes', [lease.key])).toEqual([{ yes: true }])
  expect(await sql(stalling, 'select holdfast.leased_keys($1) as keys', [[lease.key]])).toEqual([{ keys: [lease.key] }])
  expect(lease.held).toBe(true)
})

test('a presence without an anchor that is renewed meanwhile is reported as present', async () => {
  const { url, stalling } = await fixture()
  const a = await open({ url, anchor: 'none', expiry: ttlMs })
  await using permit = await a.limits.acquire('anything that needs a presence', { max: 1 })
  const [row] = await sql(url, 'select session from holdfast.instance where id = $1', [a.id])
  expect(await sql(stalling, 'select holdfast.is_present($1) as yes', [row!.session])).toEqual([{ yes: true }])
  expect(permit.held).toBe(true)
})
