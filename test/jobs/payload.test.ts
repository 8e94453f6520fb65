import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type BatchJob, defineJob, PayloadTooLargeError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test('inputs and results with zero bytes and lone surrogates are stored unchanged, and error messages replace them', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'text' })
  const odd = { text: 'a\u0000b', key: { 'c\u0000d': 'e\ud800f' } }
  const echo = defineJob('echo', {
    run: (input: unknown, { log, attempt }) => {
      log('zero \u0000')
      if (attempt === 1) throw new Error('half \ud800, zero \u0000')
      return { back: input }
    },
    retry: { backoff: 1 },
  })
  work(holdfast, [echo])
  const refs = [
    await holdfast.jobs.enqueue(echo, odd),
    await holdfast.jobs.enqueue(echo, odd, { delay: 10 }),
    await holdfast.jobs.enqueue(echo, odd, { unique: 'odd' }),
    await holdfast.jobs.enqueue(echo, odd, { unique: { key: 'odd', existing: 'replace' } }),
    ...(await holdfast.jobs.enqueueMany(echo, [odd, odd])),
  ]
  const [row] = await sql<{ id: string }>(
    fresh.url,
    `select holdfast.enqueue('default', 'echo', $1::text::json, namespace => 'text') as id`,
    [JSON.stringify(odd)],
  )
  for (const id of [...refs.map((ref) => ref.id), Number(row!.id)]) {
    expect(await holdfast.jobs.result(id)).toEqual({ back: odd })
    expect(await holdfast.jobs.find(id)).toMatchObject({
      input: odd,
      result: { back: odd },
      failures: [{ message: 'half \ufffd, zero \ufffd' }],
    })
  }
})

test('each handler receives its own input, for any mix of small and large inputs, also after retries, in lanes and in batches', {
  timeout: 120_000,
}, async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'sizes' })
  const sizes = [0, 10, 1_500, 1_990, 2_010, 2_500, 9_000, 40_000, 300_000]
  // Random text is stored outside the row. Repeated text is compressed.
  const texts = sizes.flatMap((size) => [randomBytes(size).toString('base64').slice(0, size), 'é'.repeat(size / 2)])
  const inputs = [...texts, ...texts.map((text, at) => ({ at, text })), null, 7]
  const options = { retry: { backoff: 1 } }
  const returned = (input: unknown, attempt: number) => {
    if (attempt === 1) throw new Error('once more')
    return input
  }
  const one = defineJob('one', { ...options, run: (input: unknown, { attempt }) => returned(input, attempt) })
  const many = defineJob('many', {
    ...options,
    batch: { size: 7 },
    run: (jobs: readonly BatchJob<unknown>[]) =>
      jobs.map(({ input, attempt }) => (attempt === 1 ? new Error('once more') : input)),
  })
  const refs = [
    ...(await holdfast.jobs.enqueueMany(one, inputs)),
    ...(await holdfast.jobs.enqueueMany(many, inputs)),
    ...(await holdfast.jobs.enqueueMany(one, inputs, { lane: 'lane' })),
  ]
  work(holdfast, [one, many], { concurrency: 20 })
  for (const [at, { id }] of refs.entries()) {
    // In the lane, the second attempt of the first job comes after the first attempts of all others, one at a time.
    expect((await holdfast.jobs.result(id, { wait: '60s' })) ?? null).toEqual(inputs[at % inputs.length])
  }
})

test('an input or a result of more than 1,000,000 bytes is refused', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'limit' })
  const grow = defineJob('grow', { run: (text: string) => text + text })
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(PayloadTooLargeError, async () => call())).message).toBe(message)
  const fits = 'é'.repeat(499_999)
  await refused('Expected an input of at most 1000000 bytes of JSON, got 1000002', () =>
    holdfast.jobs.enqueue(grow, 'é'.repeat(500_000)),
  )
  await refused('Expected an input of at most 1000000 bytes of JSON, got 2000002', () =>
    holdfast.jobs.enqueueMany(grow, ['', 'a'.repeat(2_000_000)]),
  )
  const { id } = await holdfast.jobs.enqueue(grow, fits)
  work(holdfast, [grow])
  await expect(holdfast.jobs.result(id)).rejects.toThrow(
    'was buried: Expected a result of at most 1000000 bytes of JSON, got 1999998',
  )
  await expect(
    sql(fresh.url, `select holdfast.enqueue('default', 'grow', to_json(repeat('a', 1000000)))`),
  ).rejects.toThrow('Expected a payload of at most 1000000 bytes of JSON, got 1000002')
})
