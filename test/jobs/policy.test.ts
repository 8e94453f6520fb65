// Tests retries and time limits of single jobs, and backoff functions.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type BackoffFunction, defineJob, type HoldfastEvents, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test('options of a job replace those of its definition one by one, and survive a retry', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'own' })
  const failing = defineJob('failing', {
    retry: { attempts: 1, backoff: 1 },
    run: (_: null, job) => {
      throw new Error(`attempt ${job.attempt}`)
    },
  })
  const slow = defineJob('slow', {
    retry: { attempts: 1 },
    run: (_: null, { signal }) => until('never', () => signal.aborted),
  })
  work(holdfast, [failing, slow])
  const plain = await holdfast.jobs.enqueue(failing)
  const own = await holdfast.jobs.enqueue(failing, null, { retry: { attempts: 3 } })
  const timed = await holdfast.jobs.enqueue(slow, null, { timeout: 20 })
  expect((await untilState(holdfast, plain.id, 'buried')).failed).toBe(1)
  expect((await untilState(holdfast, own.id, 'buried')).failed).toBe(3)
  expect((await untilState(holdfast, timed.id, 'buried')).error).toMatchObject({ code: 'JOB_TIMEOUT' })
  await caught(UsageError, holdfast.jobs.enqueue(failing, null, { retry: { attempts: 0 } }))
  await caught(UsageError, holdfast.jobs.enqueue(failing, null, { retry: { backoff: (() => 1) as never } }))
})

test('a backoff function chooses each pause, and a broken one leaves the default pause', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'backoff' })
  const events: HoldfastEvents['job.failed'][] = []
  holdfast.on('job.failed', (event) => events.push(event))
  const seen: unknown[] = []
  const chosen = (name: string, backoff: BackoffFunction) =>
    defineJob(name, {
      retry: { attempts: 3, backoff },
      run: (_: null, job) => {
        throw new Error(`attempt ${job.attempt}`)
      },
    })
  const linear = chosen('linear', (failures, error) => {
    seen.push([failures, (error as Error).message])
    return failures * 7
  })
  const broken = chosen('broken', () => {
    throw new Error('in the function')
  })
  const wrong = chosen('wrong', () => 'soon' as '1s')
  work(holdfast, [linear, broken, wrong])
  const { id } = await holdfast.jobs.enqueue(linear)
  await holdfast.jobs.enqueue(broken)
  await holdfast.jobs.enqueue(wrong)
  await untilState(holdfast, id, 'buried')
  expect(seen).toEqual([
    [1, 'attempt 1'],
    [2, 'attempt 2'],
  ])
  const pauses = (kind: string) => events.flatMap((one) => (one.kind === kind ? [one.retryInMs] : []))
  expect(pauses('linear')).toEqual([7, 14, undefined])
  await until('the others have failed', () => pauses('broken').length > 0 && pauses('wrong').length > 0)
  for (const kind of ['broken', 'wrong']) {
    expect(pauses(kind)[0]).toBeGreaterThanOrEqual(500)
    expect(pauses(kind)[0]).toBeLessThanOrEqual(1_000)
  }
  expect(() => defineJob('both', { retry: { backoff: () => 1, maxBackoff: 2 } })).toThrow(UsageError)
})
