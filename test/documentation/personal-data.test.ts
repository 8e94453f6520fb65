// Runs the statements of the page about personal data, and looks for the person's data in every table.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { defineBudget, defineJob, type JobRef } from '../../src/index.js'
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
  const calls = defineBudget('calls', { max: 5 })
  const options = (use: string) => ({
    meta,
    unique: { key: `${use}:${address}`, for: '1h' as const },
    lane: `to:${address}`,
    group: `customer:${address}`,
    budgets: [calls.of(address)],
  })
  const jobs: JobRef[] = [
    await holdfast.jobs.enqueue(send, input, { ...options('cancelled'), delay: '1h' }),
    await holdfast.jobs.enqueue(refuse, input, options('refused')),
  ]
  await holdfast.jobs.cancel(jobs[0]!.id)
  const workflow = await holdfast.jobs.enqueueWorkflow(({ add }) => {
    const { unique: _, ...others } = options('sent')
    add(send, input, { ...others, after: [add(send, input, others)] })
  })
  jobs.push(...workflow.jobs, await holdfast.jobs.enqueue(send, input, options('sent')))
  work(holdfast, [send, refuse])
  const ids = jobs.map(({ id }) => id)
  const states = async () => Promise.all(ids.map(async (id) => (await holdfast.jobs.find(id))?.state))
  await until('the jobs have ended', async () =>
    (await states()).every((state) => ['done', 'buried', 'cancelled'].includes(state!)),
  )
  expect(await tablesWithData(url)).toEqual(
    expect.arrayContaining(
      ['job', 'job_end', 'job_note', 'job_step', 'job_stopped', 'unique_job'].map((name) => `holdfast.${name}`),
    ),
  )
  const before = await states()
  const dependencies = async () =>
    (await holdfast.jobs.workflow(workflow.id))!.jobs.map(({ id, after }) => ({ id, after }))
  const needed = await dependencies()
  expect(needed.map(({ after }) => after.length)).toEqual([0, 1])

  await sql(url, statements.replaceAll('{4711,4712}', `{${ids.join(',')}}`))
  // The lanes of ended jobs are deleted in the background.
  await until('no lane has the address', async () => !(await tablesWithData(url)).includes('holdfast.lane'))
  expect(await tablesWithData(url)).toEqual([])
  expect(await states()).toEqual(before)
  expect(await dependencies()).toEqual(needed)
})
