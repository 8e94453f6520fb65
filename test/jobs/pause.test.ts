import { expect, onTestFinished, test } from 'vitest'
import { defineJob, UnknownQueueError } from '../../src/index.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { untilState, work } from './fixture.js'

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

test('pause and resume take effect if another instance uses the queue for the first time during the call', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const elsewhere = await open({ url })
  const mail = defineJob('mail', { queue: 'mail', run: () => {} })
  const { database } = elsewhere.context
  const { read } = database
  onTestFinished(() => void Object.assign(database, { read }))
  let ref: { id: number } | undefined
  Object.assign(database, {
    async read(...given: Parameters<typeof read>) {
      // The statement that finds out whether the queue is known follows the one that pauses it.
      if (given[0].includes('as is_known')) ref = await holdfast.jobs.enqueue(mail, null)
      return read(...given)
    },
  })
  await elsewhere.jobs.pause('mail')
  expect(await holdfast.jobs.find(ref!.id)).toMatchObject({ waitsFor: { reason: 'pause' } })
})

const claimWaits = `select from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and query like '%job_claim(%'`

test('a claim that began before a pause and reads the queue after it takes no job', async () => {
  const { url, holdfast, mail, blocker } = await startWorker()
  await blocker.query('begin; lock table holdfast.frontier in access exclusive mode')
  const refs = [await holdfast.jobs.enqueue(mail, null)]
  await until('a claim waits for its levels', async () => (await sql(url, claimWaits)).length > 0)
  await holdfast.jobs.pause('mail')
  refs.push(await holdfast.jobs.enqueue(mail, null))
  await blocker.query('commit')
  // The claim has ended when no session has a query that is active.
  await until('no claim waits', async () => (await sql(url, claimWaits)).length === 0)
  await holdfast.close()
  const observer = await open({ url })
  for (const { id } of refs) expect(await observer.jobs.find(id)).toMatchObject({ waitsFor: { reason: 'pause' } })
})

test('a pause waits for a claim that has read the queue', async () => {
  const { url, holdfast, mail, blocker } = await startWorker()
  await blocker.query('begin; lock table holdfast.claim in access exclusive mode')
  const { id } = await holdfast.jobs.enqueue(mail, null)
  await until('a claim waits for its insert', async () => (await sql(url, claimWaits)).length > 0)
  const pausing = holdfast.jobs.pause('mail')
  const pauseWaits = `select from pg_stat_activity
    where datname = current_database() and wait_event = 'advisory' and query like '%paused_at%'`
  await until('the pause waits', async () => (await sql(url, pauseWaits)).length > 0)
  await blocker.query('commit')
  await pausing
  await untilState(holdfast, id, 'done')
})

async function startWorker() {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const mail = defineJob('mail', { queue: 'mail', run: () => {} })
  work(holdfast, [mail])
  const { id } = await holdfast.jobs.enqueue(mail, null)
  await untilState(holdfast, id, 'done')
  return { url, holdfast, mail, blocker: await sqlSession(url) }
}
