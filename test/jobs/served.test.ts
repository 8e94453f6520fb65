// Tests which jobs are shown as jobs that no worker claims, by `jobs.find`, the lists and the doctor.
import { describe, expect, test } from 'vitest'
import { examine } from '../../src/doctor/index.js'
import { defineJob, type Holdfast } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { readJobSearch } from '../../src/search/index.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { anchorModes, gate, work } from './fixture.js'

const other = defineJob('other', { queue: 'mail', run: () => {} })

function whyOf(holdfast: Holdfast, id: number) {
  return async () => (await holdfast.jobs.find(id))!.waitsFor
}

describe.each(anchorModes)('$name', ({ anchor }) => {
  test('a job waits for a worker until one that knows its kind serves its queue, and again after that worker has closed', {
    timeout: 60_000,
  }, async () => {
    const holdfast = await open({ url: await databaseUrl(), anchor })
    const working = gate()
    const send = defineJob<unknown>('send', { queue: 'mail', run: () => working.opened })
    const elsewhere = defineJob('send', { queue: 'elsewhere', run: () => {} })
    await holdfast.jobs.enqueue(send, 1)
    const { id } = await holdfast.jobs.enqueue(send, 2)
    const why = whyOf(holdfast, id)
    expect(await why()).toEqual({
      reason: 'worker',
      unserved: 'queue',
      text: 'a worker, because no worker serves its queue',
    })

    // A worker for the kind in another queue does not help, nor does a worker for another kind in the queue.
    await work(holdfast, [elsewhere]).ready()
    expect(await why()).toMatchObject({ reason: 'worker', unserved: 'queue' })
    await work(holdfast, [other]).ready()
    expect(await why()).toEqual({
      reason: 'worker',
      unserved: 'kind',
      text: "a worker, because none of its queue's workers has a definition for the kind send",
    })

    const worker = work(holdfast, [send], { concurrency: 1 })
    await until('the first job runs', () => worker.running === 1)
    expect(await why()).toMatchObject({ reason: 'turn', ahead: 0 })

    // The closing worker claims nothing, although it still runs a job.
    const closed = worker.close()
    await until('the job waits for a worker', async () => (await why())?.reason === 'worker')
    expect(worker.running).toBe(1)
    working.open()
    await closed
    expect(await why()).toMatchObject({ reason: 'worker', unserved: 'kind' })

    work(holdfast, [send])
    await until('the job is done', async () => (await holdfast.jobs.find(id))!.state === 'done')
  })
})

test('a dead worker, and a closing worker that runs its last job, serve no queue', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const send = defineJob<unknown>('send', { queue: 'mail', run: () => {} })
  const { id } = await holdfast.jobs.enqueue(send, 1)
  for (const [session, kinds] of [
    ['2147483647', "'{send}'"],
    [`(select session from holdfast.instance where id = '${holdfast.id}')`, "'{}'"],
  ]) {
    await sql(
      url,
      `insert into holdfast.worker (session, number, instance, queues, kinds)
       select ${session}, 77, 'x', array[key], ${kinds} from holdfast.queue where name = 'mail'`,
    )
  }
  expect(await whyOf(holdfast, id)()).toMatchObject({ reason: 'worker', unserved: 'queue' })
  await sql(url, "update holdfast.worker set kinds = '{send}' where number = 77")
  expect(await whyOf(holdfast, id)()).toMatchObject({ reason: 'turn' })
})

test('find, the lists and the doctor agree on which jobs no worker claims', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const { jobs } = holdfast
  const define = (kind: string, queue: string) => defineJob(kind, { queue, run: () => {} })
  const [unknown, alone, paused] = [define('unknown', 'mail'), define('alone', 'post'), define('paused', 'still')]
  await work(holdfast, [other]).ready()
  const ids: number[] = []
  for (const job of [unknown, alone, paused]) ids.push((await jobs.enqueue(job, null)).id)
  await jobs.pause('still')
  const found = await Promise.all(ids.map(async (id) => (await jobs.find(id))!.waitsFor))
  expect(found).toMatchObject([
    { reason: 'worker', unserved: 'kind' },
    { reason: 'worker', unserved: 'queue' },
    { reason: 'pause' },
  ])
  const database = openPgPool({ connectionString: url })
  try {
    const observer = new Observer(database)
    const waitReasons = (rows: readonly { id: number; waitReason: string | null }[]) =>
      ids.map((id) => rows.find((row) => row.id === id)!.waitReason)
    const expected = ["none of the queue's workers handles jobs of this kind", "no worker serves the job's queue", null]
    expect(waitReasons((await observer.jobs.search({})).rows)).toEqual(expected)
    expect(waitReasons((await observer.jobs.search(readJobSearch(''))).rows)).toEqual(expected)
    const { findings } = await examine({ database, toleranceMs: 0 })
    expect(findings.filter(({ id }) => /^(queue|kind)-un/.test(id)).map(({ id, subject }) => [id, subject])).toEqual([
      ['queue-unattended', 'post'],
      ['kind-unhandled', 'mail'],
    ])
  } finally {
    await database.close()
  }
})
