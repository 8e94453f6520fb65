import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { sql, until } from '../setup/facts.js'
import { Child } from './children.js'
import { openDatabase } from './fixture.js'

const documents = 5

/** Keys that two jobs hold at the same time, which must not exist. */
const doubles = `
  select kind, key, count(*)
  from (
    select kind, links->'unique'->>'key' as key from holdfast.job_live
    where kind = 'only' or kind = 'index' and failed = 0 and session is null
    union all
    select kind, links->'unique'->>'key' from holdfast.waiting
    where kind = 'only' or kind = 'index' and failed = 0
  ) as live
  group by kind, key
  having count(*) > 1`

test('a unique key has one job while two processes enqueue, and a later run sees each committed version', {
  timeout: 180_000,
}, async () => {
  const seed = fixedSeedOf('unique jobs')
  const random = randomFrom(seed)
  const { url, witness } = await openDatabase()
  await sql(
    url,
    `create table document (id integer primary key, version integer not null default 0);
     insert into document select n from generate_series(0, ${documents - 1}) as n;
     create table promise (document integer, version integer, job bigint);
     create table seen (document integer, version integer, job bigint);
     create table working (document integer primary key)`,
  )
  const children = Array.from({ length: 2 }, () => {
    const facts = { url, seed: random.below(2 ** 31), documents, rounds: countOf(20) }
    return new Child<{ created: number }>('./unique-enqueuer.ts', facts)
  })
  let isOver = false
  const watching = (async () => {
    for (; !isOver; await sleep(20)) expect(await witness.query(doubles)).toEqual([])
  })()
  watching.catch(() => {})
  const totals = await Promise.all(children.map((child) => child.first('the totals of its jobs', 120_000)))
  await until('all jobs have ended', async () => {
    const [row] = await sql<{ left: number }>(
      url,
      'select (select count(*) from holdfast.job_live)::int + (select count(*) from holdfast.waiting)::int as left',
    )
    return row!.left === 0
  })
  isOver = true
  await watching
  // Each version was seen by the job that enqueue returned for it, in a run that started after the commit.
  const unseen = await sql(
    url,
    `select * from promise p
     where not exists (
       select from seen s where s.document = p.document and s.job = p.job and s.version >= p.version
     )`,
  )
  expect(unseen).toEqual([])
  // Two runs at the same time would have violated the primary key of the table.
  const [row] = await sql<{ runs: number; failed: number }>(
    url,
    "select count(*)::int as runs, count(*) filter (where failed > 0 or state <> 'done')::int as failed from holdfast.job_history where kind = 'only'",
  )
  expect(row!.failed).toBe(0)
  expect(row!.runs).toBe(totals.reduce((sum, { created }) => sum + created, 0))
  expect(await sql(url, 'select * from holdfast.unique_job')).toEqual([])
  expect(await sql(url, 'select * from holdfast.job_lost()')).toEqual([])
  await Promise.all(children.map((child) => child.close()))
})
