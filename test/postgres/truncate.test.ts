// Tests that no table of Holdfast can be truncated by hand, and that Holdfast itself still empties the default partitions.
import pg from 'pg'
import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { caught, sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const tablesOf = (url: string) =>
  sql<{ name: string }>(
    url,
    `select relname as name from pg_class
     where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') order by relname`,
  )

test('every table and partition refuses to be truncated, alone and with others, and keeps its rows', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const { id } = await holdfast.jobs.enqueue(defineJob('note', { run() {} }), null)
  const tables = await tablesOf(url)
  expect(tables.length).toBeGreaterThan(40)
  expect(tables.map(({ name }) => name)).toContainEqual(expect.stringMatching(/^job_end_\d{8}$/))
  for (const { name } of tables) {
    const error = await caught(pg.DatabaseError, sql(url, `truncate holdfast.${name} cascade`))
    expect(error.code, name).toBe('HF005')
  }
  const refused = await caught(pg.DatabaseError, sql(url, 'truncate holdfast.job, holdfast.lease'))
  expect(refused.message).toBe('The table holdfast.job of Holdfast must not be truncated')
  expect(refused.hint).toMatch(/jobs\.retain.*drop the schema.*session_replication_role/)
  expect((await holdfast.jobs.find(id))?.state).toBe('ready')
})

test('an expired default partition is emptied by Holdfast and stays protected, and a missing trigger is created again', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const { id } = await holdfast.jobs.enqueue(defineJob('note', { run() {} }), null)
  await holdfast.jobs.cancel(id)
  await sql(url, "update holdfast.job_stopped set ended_at = now() - interval '40 days'")
  expect(await sql(url, 'select from holdfast.job_stopped_default')).toHaveLength(1)
  await sql(url, 'drop trigger refuse_truncate on holdfast.lease')
  await sql(url, 'select holdfast.job_roll_partitions(7)')
  expect(await sql(url, 'select from holdfast.job_stopped')).toEqual([])
  for (const name of ['job_stopped_default', 'lease']) {
    await expect(sql(url, `truncate holdfast.${name}`), name).rejects.toMatchObject({ code: 'HF005' })
  }
})
