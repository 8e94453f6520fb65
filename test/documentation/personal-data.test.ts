// Runs the statements of the page about personal data, and looks for the person's data in every table.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { work } from '../jobs/fixture.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { root } from './lines.js'

const page = readFileSync(join(root, 'docs/operating/personal-data.md'), 'utf8')
const statements = /^```sql\n(.*?)^```/ms.exec(page)![1]!

const address = 'ada@example.com'

/** Returns the tables that contain the person's address. */
async function tablesWithData(url: string): Promise<string[]> {
  const tables = await sql<{ name: string }>(
    url,
    `select c.oid::regclass::text as name from pg_class c
     where c.relnamespace = 'holdfast'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
  )
  expect(tables.length).toBeGreaterThan(20)
  const searches = tables.map(
    ({ name }) => `select '${name}' as name where exists (select from ${name} as t where t::text like '%${address}%')`,
  )
  return (await sql<{ name: string }>(url, searches.join(' union all '))).map(({ name }) => name)
}

test('the statements remove the data of ended jobs from every table', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const input = { to: address }
  const meta = { to: address }
  const send = defineJob('send', {
    run: async ({ to }: typeof input, job) => {
      await job.step('greet', () => `Hello ${to}`)
      job.log(`sent to ${to}`)
      return { to }
    },
  })
  const refuse = defineJob('refuse', {
    retry: { attempts: 1 },
    run: ({ to }: typeof input, job) => {
      job.log(`refused ${to}`)
      throw new Error(`${to} refuses mail`)
    },
  })
  work(holdfast, [send, refuse])
  const jobs = [
    await holdfast.jobs.enqueue(send, input, { meta }),
    await holdfast.jobs.enqueue(refuse, input, { meta }),
  ]
  await holdfast.jobs.cancel(jobs[0]!.id)
  jobs.push(await holdfast.jobs.enqueue(send, input, { meta }))
  const ids = jobs.map(({ id }) => id)
  const states = async () => Promise.all(ids.map(async (id) => (await holdfast.jobs.find(id))?.state))
  await until('the jobs have ended', async () =>
    (await states()).every((state) => ['done', 'buried', 'cancelled'].includes(state!)),
  )
  expect(await tablesWithData(url)).toEqual(
    expect.arrayContaining(['job', 'job_end', 'job_note', 'job_step', 'job_stopped'].map((name) => `holdfast.${name}`)),
  )
  const before = await states()

  await sql(url, statements.replaceAll('{4711,4712}', `{${ids.join(',')}}`))
  expect(await tablesWithData(url)).toEqual([])
  expect(await states()).toEqual(before)
})
