import { expect, test } from 'vitest'
import { defineJob, UnknownQueueError } from '../../src/index.js'
import { caught, sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { work } from './fixture.js'

test.each(['asleep', 'awake'])(
  'a queue that another instance resumes continues immediately without an anchor, with a worker that is %s',
  async (how) => {
    const url = await databaseUrl()
    const holdfast = await open({ url, anchor: 'none' })
    const elsewhere = await open({ url, anchor: 'none' })
    const ran: number[] = []
    const note = defineJob('note', { queue: 'paused', run: (n: number) => void ran.push(n) })
    const other = defineJob<unknown>('other', { queue: 'open', run: () => {} })
    const runOthers = async (ms: number, isEnough = () => false) => {
      for (const over = performance.now() + ms; performance.now() < over && !isEnough(); ) {
        const refs = await holdfast.jobs.enqueueMany(other, [1, 2, 3])
        await holdfast.jobs.result(refs[2]!.id)
      }
    }
    work(holdfast, [note, other])
    await runOthers(500)
    await elsewhere.jobs.pause('paused')
    await elsewhere.jobs.enqueueMany(note, [1, 2, 3])
    // Every kind of claim skips these jobs.
    await runOthers(2_500)
    await elsewhere.jobs.enqueue(note, 4)
    if (how === 'awake') await runOthers(300)
    expect(ran).toEqual([])
    await elsewhere.jobs.resume('paused')
    if (how === 'awake') await runOthers(10_000, () => ran.length === 4)
    // A worker that misses the change would check the queue again only after 30 seconds.
    await until('all jobs have run', () => ran.length === 4)
  },
)

test('pause, resume and redrive throw UnknownQueueError for a queue that no instance has used, with a similar name', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const elsewhere = await open({ url })
  await holdfast.jobs.enqueue(defineJob('note', { queue: 'mail', run: () => {} }), null)
  for (const verb of ['pause', 'resume', 'redrive'] as const) {
    const error = await caught(UnknownQueueError, elsewhere.jobs[verb]('mial'))
    expect(error).toMatchObject({ code: 'UNKNOWN_QUEUE', queue: 'mial', retryable: false })
    expect(error.message).toBe('There is no queue "mial" in the namespace "default"')
    expect(error.hint).toBe('Did you mean "mail"?')
    expect((await caught(UnknownQueueError, elsewhere.jobs[verb]('reports'))).hint).toContain(
      'A queue exists as soon as',
    )
  }
  // The refused calls have not created the queue.
  expect(await sql(url, 'select name from holdfast.queue')).toEqual([{ name: 'mail' }])
  await elsewhere.jobs.pause('mail')
  expect(await elsewhere.jobs.redrive('mail')).toBe(0)
})

test('pause accepts a queue whose worker has just started, and a queue that has jobs but no name yet', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const elsewhere = await open({ url })
  const note = defineJob('note', { queue: 'new', run: () => {} })
  work(holdfast, [note])
  await holdfast.jobs.pause('new')
  await holdfast.jobs.enqueue(note, null)
  await sql(url, "delete from holdfast.queue where name = 'new'")
  await elsewhere.jobs.pause('new')
  expect(await sql(url, 'select name, paused_at is not null as paused from holdfast.queue')).toEqual([
    { name: 'new', paused: true },
  ])
})
