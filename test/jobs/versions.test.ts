// The schema is upgraded by a newer version of Holdfast while workers of this one are at work.
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

test('where only newer code can go on, a worker takes no more; what it runs comes to its end', async () => {
  const { url, known, upgrade, holdfast } = await start()
  const opening = gate()
  const hold = defineJob('hold', { run: () => opening.opened })
  const worker = work(holdfast, [hold], { concurrency: 1 })
  await worker.ready()
  const first = await holdfast.jobs.enqueue(hold, null)
  await until('it runs', () => worker.running === 1)
  await upgrade(known + 1)
  opening.open()
  const refusal = () => worker.ready().then(() => undefined)
  const error = await caught(SchemaVersionError, until('it refuses', refusal))
  expect(error).toMatchObject({ code: 'SCHEMA_TOO_NEW', found: known + 1, expected: known })
  await until('the first is done', async () => (await state(holdfast, first.id)) === 'done')
  const second = await holdfast.jobs.enqueue(hold, null)
  await stays('what it has not taken waits', async () => (await state(holdfast, second.id)) === 'ready', 500)
  // Somebody goes back to the version before.
  await sql(url, `delete from holdfast.migration where version = ${known + 1}`)
  await until('it runs again', async () => (await state(holdfast, second.id)) === 'done')
  await worker.ready()
})

test('where this code can go on, it does', async () => {
  const { known, upgrade, holdfast } = await start()
  const quick = defineJob('quick', { run: () => 'done' })
  const worker = work(holdfast, [quick])
  await upgrade(known)
  const { id } = await holdfast.jobs.enqueue(quick, null)
  expect(await holdfast.jobs.result(id)).toBe('done')
  await worker.ready()
})
