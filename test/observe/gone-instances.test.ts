// History shows the names of instances that are gone.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, type Holdfast, NonRetryableError } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { untilState, work } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { anchorPid, open } from '../setup/instances.js'

let fresh: FreshDatabase
let database: Database
let observer: Observer
beforeAll(async () => {
  fresh = await freshDatabase()
  database = openPgPool({ connectionString: fresh.url })
  observer = new Observer(database)
})
afterAll(async () => {
  await database.close()
  await fresh.drop()
})

const namespace = 'history'
const double = defineJob('double', { run: (n: number) => n * 2 })
const fail = defineJob('fail', {
  run: () => {
    throw new NonRetryableError('no')
  },
})

/** Runs one piece of work of each kind, and returns the IDs of the jobs. */
async function runEverything(holdfast: Holdfast, suffix: string) {
  const worker = work(holdfast, [double, fail])
  const done = (await holdfast.jobs.enqueue(double, 21)).id
  const buried = (await holdfast.jobs.enqueue(fail, undefined)).id
  await untilState(holdfast, done, 'done')
  await untilState(holdfast, buried, 'buried')
  await holdfast.once.run(`key ${suffix}`, () => 'answer')
  const schedule = holdfast.schedules.add(`nightly ${suffix}`, { every: '7d' }, () => {})
  await until('the schedule can run', async () =>
    holdfast.schedules.run(`nightly ${suffix}`).then(
      () => true,
      () => false,
    ),
  )
  const lastRun = async () => (await holdfast.schedules.runs(`nightly ${suffix}`, { limit: 1 }))[0]
  await until('the run ends', async () => {
    const run = await lastRun()
    return run?.kind === 'run' && run.state === 'done'
  })
  const lock = await holdfast.locks.acquire(`lock ${suffix}`)
  // The end of a term of less than a second is not recorded.
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  await lock.release()
  await worker.close()
  await schedule.close()
  return { done, buried }
}

test('jobs, attempts, deliveries, runs and terms show the name of their instance after it has closed', async () => {
  const gone = await open({ url: fresh.url, namespace, name: 'gone-1' })
  const { done, buried } = await runEverything(gone, 'one')
  await gone.close()
  const other = await open({ url: fresh.url, namespace, name: 'other' })
  const owner = { instance: gone.id, instanceName: 'gone-1' }

  expect(await other.jobs.find(done)).toMatchObject({ state: 'done', ...owner })
  expect(await other.jobs.find(buried)).toMatchObject({ state: 'buried', ...owner, failures: [owner] })
  expect(await observer.jobs.find(done)).toMatchObject({ ...owner, osPid: process.pid })
  expect(await observer.jobs.find(buried)).toMatchObject({ ...owner, attempts: [owner] })
  const { rows } = await observer.jobs.search({ states: ['done', 'buried'] }, { namespace })
  expect(rows).toMatchObject([owner, owner])

  expect(await observer.deliveries.find(namespace, 'key one')).toMatchObject({ ...owner, osPid: process.pid })
  expect((await observer.deliveries.search({ namespace })).rows).toMatchObject([owner])

  expect(await other.schedules.runs('nightly one')).toMatchObject([{ state: 'done', ...owner }])
  const schedule = await observer.schedules.find(namespace, 'nightly one')
  expect(schedule?.runs).toMatchObject([{ ...owner, osPid: process.pid }])
  expect((await observer.schedules.list({ namespace })).rows).toMatchObject([{ last: owner }])
  const timeline = await observer.schedules.tickTimeline({ namespace, minutes: 60, steps: 60 })
  expect(timeline.instances).toContainEqual(expect.objectContaining({ id: gone.id, name: 'gone-1' }))

  const [term] = await observer.terms(namespace, 'lock one')
  expect(term).toMatchObject({ ...owner, why: 'released' })
})

test('a job shows the name of its instance although the instance has reconnected since the job ended', async () => {
  const holdfast = await open({ url: fresh.url, namespace, name: 'reconnecting' })
  const worker = work(holdfast, [double])
  const { id } = await holdfast.jobs.enqueue(double, 1)
  await untilState(holdfast, id, 'done')
  const back = new Promise<void>((resolve) => holdfast.on('instance.reconnected', () => resolve()))
  await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, holdfast)])
  await back
  const later = await holdfast.jobs.enqueue(double, 2)
  await untilState(holdfast, later.id, 'done')
  for (const job of [id, later.id]) {
    expect(await holdfast.jobs.find(job)).toMatchObject({ instance: holdfast.id, instanceName: 'reconnecting' })
  }
  await worker.close()
})
