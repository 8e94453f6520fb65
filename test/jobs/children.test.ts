import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, type Holdfast, JobOutcome, type JobRef } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { gate, giveClaimAway, untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const child = defineJob('child', { queue: 'children', run: (n: number) => n * 2 })
const start = (namespace: string) => open({ url: fresh.url, namespace })
const found = (holdfast: Holdfast, refs: JobRef[]) => Promise.all(refs.map(({ id }) => holdfast.jobs.find(id)))

test('children exist after the end of their parent is recorded, and not before', async () => {
  const holdfast = await start('there')
  const refs: JobRef[] = []
  const begun = gate()
  const opening = gate()
  const parent = defineJob('parent', {
    // Destructured, as in many handlers.
    run: async (_: null, { enqueue }) => {
      refs.push(await enqueue(child, 1), await enqueue(child, 2, { delay: '1h', priority: 3 }))
      begun.open()
      await opening.opened
      return refs.length
    },
  })
  const worker = work(holdfast, [parent])
  const { id } = await holdfast.jobs.enqueue(parent, null)
  await begun.opened
  expect(await found(holdfast, refs)).toEqual([null, null])
  // The parent ends while the worker closes.
  const closing = worker.close()
  opening.open()
  await closing
  expect((await holdfast.jobs.find(id))!).toMatchObject({ state: 'done', result: 2 })
  expect(await found(holdfast, refs)).toMatchObject([
    { state: 'ready', input: 1 },
    { state: 'waiting', input: 2, priority: 3 },
  ])
  work(holdfast, [child])
  expect(await holdfast.jobs.result(refs[0]!.id)).toBe(2)
})

test('children of a failed or lost attempt do not exist, but children of an attempt that returns retryAfter do', async () => {
  const holdfast = await start('failed')
  const refs: JobRef[] = []
  const opening = gate()
  const parent = defineJob('parent', {
    retry: { attempts: 1 },
    run: async (how: string, job) => {
      const at = refs.push(await job.enqueue(child, 1))
      if (how === 'fails') throw new Error('no')
      if (how === 'is lost') await opening.opened
      return at < 4 ? JobOutcome.retryAfter(1) : 'done'
    },
  })
  const worker = work(holdfast, [parent])
  const failed = await holdfast.jobs.enqueue(parent, 'fails')
  await untilState(holdfast, failed.id, 'buried')
  const lost = await holdfast.jobs.enqueue(parent, 'is lost')
  await until('the lost parent has enqueued a child', () => refs.length === 2)
  await giveClaimAway(fresh.url, lost.id)
  opening.open()
  await until('the lost attempt has ended', () => worker.running === 0)
  const back = await holdfast.jobs.enqueue(parent, 'comes back')
  await holdfast.jobs.result(back.id)
  expect((await found(holdfast, refs)).map((status) => status?.state)).toEqual([undefined, undefined, 'ready', 'ready'])
})

test('invalid arguments of job.enqueue fail the attempt, and job.enqueue fails after the run has ended', async () => {
  const holdfast = await start('mistakes')
  const calls: Record<string, (enqueue: (...given: never[]) => Promise<JobRef>) => Promise<JobRef>> = {
    'Expected a definition made by defineJob': (enqueue) => enqueue('child' as never, 1 as never),
    'job.enqueue has no option "tx"': (enqueue) => enqueue(child as never, 1 as never, { tx: {} } as never),
    'Expected either delay or runAt, got both': (enqueue) =>
      enqueue(child as never, 1 as never, { delay: 1, runAt: new Date() } as never),
    'Expected an input that JSON can represent': (enqueue) => enqueue(child as never, 1n as never),
  }
  const parent = defineJob('parent', {
    retry: { attempts: 1 },
    run: async (call: string, job) => void (await calls[call]!(job.enqueue)),
  })
  work(holdfast, [parent])
  for (const message of Object.keys(calls)) {
    const { id } = await holdfast.jobs.enqueue(parent, message)
    await expect(holdfast.jobs.result(id)).rejects.toThrow(message)
  }
  let late: Promise<JobRef> | undefined
  const forgetful = defineJob('forgetful', {
    run: (_: null, job) => {
      setImmediate(() => {
        late = job.enqueue(child, 1)
        late.catch(() => {})
      })
    },
  })
  work(holdfast, [forgetful])
  const { id } = await holdfast.jobs.enqueue(forgetful, null)
  await holdfast.jobs.result(id)
  await expect(until('job.enqueue was called after the run', () => late)).rejects.toThrow(
    'The transaction of this run has ended',
  )
})
