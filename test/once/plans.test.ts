import { expect, test } from 'vitest'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

test('the statements of claims, records and replays use the index of the key, also without table statistics', async () => {
  const url = await databaseUrl()
  await sql(url, 'alter table holdfast.delivery set (autovacuum_enabled = false)')
  const { once } = await open({ url })
  await once.run('early', () => 1)
  await sql(
    url,
    `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, started_at, expires_at)
     select 'default', 'k ' || i, 'done', '', 0, '', 1, now(), now() + interval '1 day' from generate_series(1, 20000) as i`,
  )
  const before = await blocksRead(url)
  for (let i = 0; i < 10; i++) {
    expect(await once.run(`late ${i}`, () => i)).toEqual({ status: 'done', value: i })
    expect(await once.run(`k ${i + 1}`, () => 'again')).toMatchObject({ status: 'replayed' })
  }
  // Each of the 30 statements reads some tens of blocks. A scan of the namespace would read hundreds of blocks.
  expect(((await blocksRead(url)) - before) / 30).toBeLessThan(100)
})

async function blocksRead(url: string): Promise<number> {
  const [row] = await sql<{ blocks: number }>(
    url,
    `select coalesce(sum(shared_blks_hit + shared_blks_read), 0)::int as blocks
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and (query like '%claim_delivery(%' or query like '%finish_delivery(%')
       and query not like '%pg_stat_statements%'`,
  )
  return row!.blocks
}
