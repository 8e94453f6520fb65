import { expect, test } from 'vitest'
import { defineJob, UsageError } from '../../src/index.js'
import { caught, sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { work } from './fixture.js'

test.each([
  ['2d', 3, 2],
  ['60h', 4, 3],
  [undefined, 8, 7],
] as const)('with keep: %s, jobs are forgotten %i days after their end, and not after %i', async (keep, over, kept) => {
  const url = await databaseUrl()
  const holdfast = await open({ url, jobs: { keep } })
  const past = async (days: number, id: number) => {
    const [row] = await sql<{ day: string; from: string; to: string }>(
      url,
      `select to_char(d, 'YYYYMMDD') as day, d::text as from, (d + interval '1 day')::date::text as to
       from (select (now() at time zone 'UTC')::date - $1::integer as d) as t`,
      [days],
    )
    await sql(
      url,
      `set timezone = 'UTC';
       create table holdfast.job_history_${row!.day} partition of holdfast.job_history
       for values from ('${row!.from}') to ('${row!.to}');
       insert into holdfast.job_history
         (id, queue, priority, kind, payload, state, enqueued_at, ended_at, failed, crashes, max_crashes)
       values (${id}, 1, 0, 'old', 'null', 'done', now(), '${row!.from} 23:59:59', 0, 0, 3)`,
    )
  }
  await past(over, 1_000_001)
  await past(kept, 1_000_002)
  work(holdfast, [defineJob('job', { run: () => {} })])
  // Whoever reads of the history keeps its days from being dropped; so the test looks at their names.
  await until('the old day is dropped', async () => {
    const days = await sql(url, "select from pg_class where relname ~ '^job_history_[0-9]{8}$'")
    return days.length === 5
  })
  expect(await holdfast.jobs.find(1_000_001)).toBeNull()
  expect(await holdfast.jobs.find(1_000_002)).toMatchObject({ state: 'done' })
})

test('less than a day is refused', async () => {
  const url = await databaseUrl()
  const error = await caught(UsageError, open({ url, jobs: { keep: '1h' } }))
  expect(error.message).toBe('Expected keep to be a duration of at least 1d and at most 3650d, got "1h" (string)')
  const unknown = await caught(UsageError, open({ url, jobs: { kept: '1d' } as never }))
  expect(unknown.message).toBe('jobs has no option "kept": its options are keep')
})
