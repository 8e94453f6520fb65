// Tests what workers of this version do after a newer version of Holdfast has upgraded the schema.
import { expect, test } from 'vitest'
import { defineJob, type Holdfast, SchemaVersionError } from '../../src/index.js'
import { caught, sql, stays, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate, work } from './fixture.js'

async function start() {
  const url = await databaseUrl()
  const [{ known }] = (await sql<{ known: number }>(url, 'select max(version) as known from holdfast.migration')) as [
    { known: number },
  ]
  const upgrade = (worksFrom: number) =>
    sql(url, `insert into holdfast.migration (version, name, works_from) values (${known + 1}, 'later', ${worksFrom})`)
  return { url, known, upgrade, holdfast: await open({ url }) }
}

const state = async (holdfast: Holdfast, id: number) => (await holdfast.jobs.find(id))?.state

test('a worker stops claiming after an upgrade that only newer versions support, and lets its running job finish', async () => {
  const { url, known, upgrade, holdfast } = await start()
  const opening = gate()
  const hold = defineJob('hold', { run: () => opening.opened })
  const worker = work(holdfast, [hold], { concurrency: 1 })
  await worker.ready()
  const first = await holdfast.jobs.enqueue(hold, null)
  await until('the first job runs', () => worker.running === 1)
  await upgrade(known + 1)
  opening.open()
  const refusal = () => worker.ready().then(() => undefined)
  const error = await caught(SchemaVersionError, until('the worker refuses', refusal))
  expect(error).toMatchObject({ code: 'SCHEMA_TOO_NEW', found: known + 1, expected: known })
  await until('the first job is done', async () => (await state(holdfast, first.id)) === 'done')
  const second = await holdfast.jobs.enqueue(hold, null)
  await stays('the second job stays ready', async () => (await state(holdfast, second.id)) === 'ready', 500)
  // An operator goes back to the previous version.
  await sql(url, `delete from holdfast.migration where version = ${known + 1}`)
  await until('the second job is done', async () => (await state(holdfast, second.id)) === 'done')
  await worker.ready()
})

test('a worker continues after an upgrade that this version supports', async () => {
  const { known, upgrade, holdfast } = await start()
  const quick = defineJob('quick', { run: () => 'done' })
  const worker = work(holdfast, [quick])
  await upgrade(known)
  const { id } = await holdfast.jobs.enqueue(quick, null)
  expect(await holdfast.jobs.result(id)).toBe('done')
  await worker.ready()
})
