import { expect, test } from 'vitest'
import { sql } from '../setup/facts.js'
import { databaseUrl, open, roleUrl } from '../setup/instances.js'

// What a statement sees is as old as its snapshot. A server that is busy, or frozen, may look at the clock so much later that what it
// sees as over was renewed in between, and the holder told so. Whoever asks whether somebody is there must not take that for over.

const lifeMs = 2_000

/** A database, and its address for a role that stalls between what it sees and the comparison, for longer than a life. */
async function stage(): Promise<{ url: string; stalling: string }> {
  const url = await databaseUrl()
  const { url: stalling, role } = await roleUrl(url)
  await sql(
    url,
    `create function public.stalls() returns boolean
       language plpgsql
       -- Cheap, so that it is asked first.
       cost 0.0001
       as $$ begin perform pg_sleep(${(1.2 * lifeMs) / 1_000}); return true; end $$;
     grant usage on schema holdfast to ${role};
     grant select on holdfast.lease, holdfast.instance to ${role};
     alter table holdfast.lease enable row level security;
     create policy stalls on holdfast.lease using (public.stalls());
     alter table holdfast.instance enable row level security;
     create policy stalls on holdfast.instance using (public.stalls())`,
  )
  return { url, stalling }
}

test('a lease that is renewed meanwhile is somebody’s, for one lock and for many', async () => {
  const { url, stalling } = await stage()
  const a = await open({ url })
  await using lease = await a.leases.acquire('renewed', { ttl: lifeMs })
  expect(await sql(stalling, 'select holdfast.is_leased($1) as yes', [lease.key])).toEqual([{ yes: true }])
  expect(await sql(stalling, 'select holdfast.leased_keys($1) as keys', [[lease.key]])).toEqual([{ keys: [lease.key] }])
  expect(lease.held).toBe(true)
})

test('a presence without an anchor that is renewed meanwhile is one', async () => {
  const { url, stalling } = await stage()
  const a = await open({ url, anchor: 'none', expiry: lifeMs })
  await using permit = await a.limits.acquire('anything that needs a presence', { max: 1 })
  const [row] = await sql(url, 'select session from holdfast.instance where id = $1', [a.id])
  expect(await sql(stalling, 'select holdfast.is_present($1) as yes', [row!.session])).toEqual([{ yes: true }])
  expect(permit.held).toBe(true)
})
