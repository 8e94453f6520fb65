import { expect, onTestFinished, test } from 'vitest'
import {
  defineJob,
  type EnqueueOptions,
  type Holdfast,
  type JobMeta,
  JobOutcome,
  PayloadTooLargeError,
  UsageError,
} from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { readJobSearch } from '../../src/search/index.js'
import { drain, enqueued } from '../../src/testing/index.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { gate, untilState, work } from './fixture.js'

const meta = { tags: ['billing', 'ü "quoted"'], requestId: 'r-1', nested: { n: 1.5, none: null } }

/** Returns a definition whose handler returns the job's meta. */
const echo = (queue = 'default') => defineJob('echo', { queue, run: (_: unknown, job) => job.meta })

async function openFresh(): Promise<{ url: string; holdfast: Holdfast }> {
  const url = await databaseUrl()
  return { url, holdfast: await open({ url }) }
}

test('a job keeps its meta while it is waiting, ready, running and done, and its handler receives it', async () => {
  const { holdfast } = await openFresh()
  const { jobs } = holdfast
  const [started, released] = [gate(), gate()]
  const seen: JobMeta[] = []
  const hold = defineJob('hold', {
    run: async (_: number, job) => {
      seen.push(job.meta)
      started.open()
      await released.opened
    },
  })
  const { id } = await jobs.enqueue(hold, 1, { meta })
  const later = await jobs.enqueue(hold, 2, { meta, delay: '1h' })
  expect(await jobs.find(id)).toMatchObject({ state: 'ready', meta })
  expect(await jobs.find(later.id)).toMatchObject({ state: 'waiting', meta })
  expect(await enqueued(holdfast, hold)).toMatchObject([{ meta }, { meta }])
  work(holdfast, [hold])
  await started.opened
  expect(await jobs.find(id)).toMatchObject({ state: 'running', meta })
  released.open()
  expect(await untilState(holdfast, id, 'done')).toMatchObject({ meta })
  expect(seen).toEqual([meta])
})

test('a job without meta stores null, and its handler receives an empty object', async () => {
  const { url, holdfast } = await openFresh()
  const job = echo()
  const all = [await holdfast.jobs.enqueue(job, 1), await holdfast.jobs.enqueue(job, 2, { meta: {} })]
  const [late] = await holdfast.jobs.enqueueMany(job, [3], { meta: { absent: undefined }, delay: '1h' })
  expect(await sql(url, 'select meta from holdfast.job union all select meta from holdfast.waiting')).toEqual(
    [1, 2, 3].map(() => ({ meta: null })),
  )
  expect((await holdfast.jobs.find(late!.id))!.meta).toEqual({})
  await drain(holdfast, [job])
  for (const { id } of all) {
    const { result, meta } = (await holdfast.jobs.find(id))!
    expect([result, meta]).toEqual([{}, {}])
  }
  const [row] = await sql<{ text: string }>(
    url,
    "select holdfast.job_text(1, 1, '{}', 0::smallint, null, null, null, null, null) as text",
  )
  expect(row!.text).toBe('[1,1,{}]')
})

test('jobs that share a statement keep their own meta', async () => {
  const { holdfast } = await openFresh()
  const job = echo()
  const metas = [{ n: 0 }, undefined, { n: 2 }, { n: 3 }, undefined, { n: 5 }]
  const refs = await Promise.all(
    metas.map((meta, n) => holdfast.jobs.enqueue(job, n, { priority: n % 2, ...(meta ? { meta } : {}) })),
  )
  const later = await Promise.all(
    metas.map((meta, n) => holdfast.jobs.enqueue(job, n, { delay: n % 2 ? '1h' : '2h', ...(meta ? { meta } : {}) })),
  )
  for (const list of [refs, later])
    for (const [n, { id }] of list.entries()) {
      const { input, meta } = (await holdfast.jobs.find(id))!
      expect([input, meta]).toEqual([n, metas[n] ?? {}])
    }
  await drain(holdfast, [job])
  for (const [n, { id }] of refs.entries()) expect(await holdfast.jobs.result(id)).toEqual(metas[n] ?? {})
})

test('a job keeps its meta when it is retried after a failure or by its handler, also with a large input', async () => {
  const { holdfast } = await openFresh()
  const seen: unknown[] = []
  const flaky = defineJob('flaky', {
    retry: { attempts: 2, backoff: 0 },
    run: (_: string, { attempt, meta }) => {
      seen.push(meta)
      if (attempt === 1) throw new Error('again')
      return meta
    },
  })
  const twice = defineJob('twice', {
    run: (_: string, { meta }) => (seen.push(meta) < 4 ? JobOutcome.retryAfter('10ms') : meta),
  })
  const first = await holdfast.jobs.enqueue(flaky, 'x'.repeat(10_000), { meta })
  await drain(holdfast, [flaky])
  expect(await holdfast.jobs.result(first)).toEqual(meta)
  const second = await holdfast.jobs.enqueue(twice, 'small', { meta })
  const worker = work(holdfast, [twice])
  expect(await holdfast.jobs.result(second)).toEqual(meta)
  expect(seen).toEqual([meta, meta, meta, meta])
  await worker.close()
})

test('a job keeps its meta when another worker takes it over', async () => {
  const { url, holdfast } = await openFresh()
  const other = await open({ url })
  const started = gate()
  const hang = defineJob<unknown>('job', {
    run: async () => {
      started.open()
      await new Promise(() => {})
    },
  })
  const worker = holdfast.jobs.work([hang])
  const { id } = await other.jobs.enqueue(hang, null, { meta })
  await started.opened
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, holdfast)])
  const closing = worker.close({ within: 10 })
  work(other, [defineJob<unknown>('job', { run: (_, job) => job.meta })])
  expect(await other.jobs.result(id)).toEqual(meta)
  expect(await other.jobs.find(id)).toMatchObject({
    crashes: 1,
    meta,
    failures: [{ message: 'The worker process ended or lost its database session while the job was running' }],
  })
  await closing
})

test('a job keeps its meta when it is buried, discarded or cancelled, and when it runs again', async () => {
  const { holdfast } = await openFresh()
  const { jobs } = holdfast
  const fail = defineJob('fail', {
    retry: { attempts: 1 },
    run: () => {
      throw new Error('no')
    },
  })
  const discard = defineJob('discard', { run: () => JobOutcome.discard('old') })
  const cancelled = [await jobs.enqueue(fail, null, { meta }), await jobs.enqueue(fail, null, { meta, delay: '1h' })]
  for (const { id } of cancelled) {
    await jobs.cancel(id)
    expect(await jobs.find(id)).toMatchObject({ state: 'cancelled', meta })
  }
  const buried = await jobs.enqueue(fail, null, { meta })
  const discarded = await jobs.enqueue(discard, null, { meta })
  await drain(holdfast, [fail, discard])
  expect(await jobs.find(buried.id)).toMatchObject({ state: 'buried', meta })
  expect(await jobs.find(discarded.id)).toMatchObject({ state: 'discarded', meta })
  expect(await jobs.redrive('default')).toBe(1)
  for (const { id } of [...cancelled, discarded]) expect(await jobs.retry(id)).toBe(true)
  const ok = [fail, discard].map(({ kind }) => defineJob<unknown>(kind, { run: (_, job) => job.meta }))
  await drain(holdfast, ok)
  for (const { id } of [...cancelled, discarded, buried]) expect(await jobs.result(id)).toEqual(meta)
})

test('jobs in lanes, with dependencies, in workflows and in batches keep their meta', async () => {
  const { holdfast } = await openFresh()
  const { jobs } = holdfast
  const job = echo()
  const inLane = [
    await jobs.enqueue(job, 1, { lane: 'shop:7', meta }),
    await jobs.enqueue(job, 2, { lane: 'shop:7', meta: { second: true } }),
  ]
  const after = await jobs.enqueue(job, 3, { after: inLane, meta })
  const { jobs: members } = await jobs.enqueueWorkflow((workflow) => {
    const first = workflow.add(job, 4, { meta })
    const second = workflow.add(job, 5, { after: [first] })
    workflow.add(job, 6, { after: [second], meta: { third: true } })
  })
  const inBatch: [number, JobMeta][] = []
  const batch = defineJob('batch', {
    batch: { size: 3 },
    run: (all: readonly { input: number; meta: JobMeta }[]) => {
      for (const { input, meta } of all) inBatch.push([input, meta])
    },
  })
  await jobs.enqueueMany(batch, [1, 2], { meta })
  await jobs.enqueue(batch, 3)
  await drain(holdfast, [job, batch])
  const results = await Promise.all([...inLane, after, ...members].map(({ id }) => jobs.result(id)))
  expect(results).toEqual([meta, { second: true }, meta, meta, {}, { third: true }])
  expect(inBatch.sort(([a], [b]) => a - b)).toEqual([
    [1, meta],
    [2, meta],
    [3, {}],
  ])
})

test('a cancelled dependent keeps its meta', async () => {
  const { holdfast } = await openFresh()
  const { jobs } = holdfast
  const first = await jobs.enqueue(echo(), 1)
  const second = await jobs.enqueue(echo(), 2, { after: [first], meta })
  await until('the dependent waits', async () => (await jobs.find(second.id))?.waitsFor?.reason === 'jobs')
  await jobs.cancel(first.id)
  expect(await untilState(holdfast, second.id, 'cancelled')).toMatchObject({ meta })
})

test('a unique job keeps its meta, and a call that replaces its input replaces its meta', async () => {
  const { holdfast } = await openFresh()
  const { jobs } = holdfast
  const job = echo()
  const unique = (existing: 'keep' | 'replace', key = 'one') => ({ unique: { key, existing } }) as const
  const { id } = await jobs.enqueue(job, 1, { ...unique('keep'), meta })
  await jobs.enqueue(job, 2, { ...unique('keep'), meta: { kept: false } })
  expect(await jobs.find(id)).toMatchObject({ input: 1, meta })
  await jobs.enqueue(job, 3, { ...unique('replace'), meta: { replaced: 1 } })
  expect(await jobs.find(id)).toMatchObject({ input: 3, meta: { replaced: 1 } })
  await jobs.enqueue(job, 4, { ...unique('replace'), delay: '1h', meta: { replaced: 2 } })
  expect(await jobs.find(id)).toMatchObject({ state: 'waiting', input: 4, meta: { replaced: 2 } })
  await jobs.enqueue(job, 5, { ...unique('replace'), delay: '2h' })
  const { state, input, meta: replaced } = (await jobs.find(id))!
  expect([state, input, replaced]).toEqual(['waiting', 5, {}])
  const many = await jobs.enqueueMany(job, [6, 7], { unique: (n) => `key ${n}`, meta, lane: 'shop:7' })
  const delayed = await jobs.enqueue(job, 8, { ...unique('keep', 'two'), delay: '1h', meta })
  const ready = await jobs.enqueue(job, 9, { ...unique('keep', 'three'), meta })
  for (const one of [...many, delayed, ready]) expect(await jobs.find(one.id)).toMatchObject({ meta })
  work(holdfast, [job])
  for (const one of [...many, ready]) expect(await jobs.result(one)).toEqual(meta)
})

test('a job keeps its meta when a claim skips it, and when its old partition is dropped', async () => {
  const { url, holdfast } = await openFresh()
  const { jobs } = holdfast
  const other = defineJob('other', { run: () => {} })
  const client = await sqlSession(url)
  const unique = { key: 'one', until: 'started' } as const
  const plain = await jobs.enqueue(echo(), 1, { meta })
  const keyed = await jobs.enqueue(echo(), 2, { meta, unique })
  // Drops the first entries, as the maintenance of old partitions does.
  await sql(
    url,
    `select holdfast.job_re_enter(clock_timestamp() + interval '1 day');
     delete from holdfast.job where entry = id`,
  )
  // The open transaction keeps the key locked, so that claims skip the job.
  await client.query('begin')
  await jobs.enqueue(echo(), 3, { tx: client, unique })
  const unaware = work(holdfast, [other])
  const skipped = async () => (await sql(url, 'select from holdfast.job_skipped')).length
  await until('a worker without a definition has skipped both jobs', async () => (await skipped()) === 2)
  await unaware.close()
  work(holdfast, [echo()])
  expect(await jobs.result(plain)).toEqual(meta)
  await client.query('commit')
  expect(await jobs.result(keyed)).toEqual(meta)
  expect(await sql(url, 'select meta from holdfast.job_history')).toEqual([{ meta }, { meta }])
})

test('jobs that are enqueued in a transaction, by a handler or from SQL have their meta', async () => {
  const { url, holdfast } = await openFresh()
  const { jobs } = holdfast
  const job = echo()
  const client = await sqlSession(url)
  await client.query('begin')
  const inTransaction = await jobs.enqueue(job, 1, { tx: client, meta })
  const fromSql = await client.query<{ id: string }>(
    `select holdfast.enqueue('default', 'echo', '2', meta => $1) as id
     union all
     select holdfast.enqueue('default', 'echo', '3', meta => $1, lane => 'a', unique_key => 'b')
     union all
     select holdfast.enqueue('default', 'echo', '4', meta => '{}')`,
    [JSON.stringify(meta)],
  )
  await client.query('commit')
  const parent = defineJob('parent', {
    run: async (_: null, { enqueue }) => (await enqueue(job, 5, { meta })).id,
  })
  const { id } = await jobs.enqueue(parent, null, { meta: { parent: true } })
  await drain(holdfast, [parent, job])
  const child = (await jobs.find(id))!.result as number
  const ids = [inTransaction.id, ...fromSql.rows.slice(0, 2).map(({ id }) => Number(id)), child]
  for (const one of ids) expect(await jobs.result(one), String(one)).toEqual(meta)
  expect(await jobs.result(Number(fromSql.rows[2]!.id))).toEqual({})
  expect(await sql(url, 'select distinct meta::text as meta from holdfast.job where meta is null')).toHaveLength(1)
})

test.each([
  ['a list', ['billing'], 'Expected meta to be a plain object, got'],
  ['a text', 'billing', 'Expected meta to be a plain object, got "billing" (string)'],
  ['a map', new Map([['tag', 'billing']]), 'Expected meta to be a plain object, got'],
  ['a bigint inside', { n: 1n }, 'Expected meta that JSON can represent, got 1 (bigint) at meta.n'],
  [
    'an object that JSON writes as a text',
    { toJSON: () => 'x' },
    'Expected meta to be a plain object, got "x" (string)',
  ],
])('enqueue rejects %s as meta', async (_, wrong, message) => {
  const { holdfast } = await openFresh()
  const options = { meta: wrong as never }
  for (const call of [
    () => holdfast.jobs.enqueue(echo(), 1, options),
    () => holdfast.jobs.enqueueMany(echo(), [1], options),
    () => holdfast.jobs.enqueueWorkflow((workflow) => workflow.add(echo(), 1, options)),
  ]) {
    expect((await caught(UsageError, call())).message).toContain(message)
  }
})

test('a meta of more than 2,000 bytes is rejected, also from SQL', async () => {
  const { url, holdfast } = await openFresh()
  const of = (bytes: number) => ({ a: 'x'.repeat(bytes - '{"a":""}'.length) })
  await holdfast.jobs.enqueue(echo(), 1, { meta: of(2_000) })
  const error = await caught(PayloadTooLargeError, holdfast.jobs.enqueue(echo(), 1, { meta: of(2_001) }))
  expect(error).toMatchObject({ message: 'Expected meta of at most 2000 bytes of JSON, got 2001', limit: 2_000 })
  for (const wrong of [JSON.stringify(of(2_001)), '["billing"]', 'null']) {
    const sqlError = await caught(Error, sql(url, "select holdfast.enqueue('q', 'k', '1', meta => $1)", [wrong]))
    expect(sqlError).toMatchObject({ code: '22023' })
    expect(sqlError.message).toContain('Expected meta to be a JSON object of at most 2000 bytes, got ')
  }
})

test('a search finds jobs of every state by the values in their meta', async () => {
  const { url, holdfast } = await openFresh()
  const { jobs } = holdfast
  const fail = defineJob('fail', {
    retry: { attempts: 1 },
    run: () => {
      throw new Error('no')
    },
  })
  const hold = defineJob('hold', {
    run: (_: unknown, { signal }) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve())),
  })
  const done = await jobs.enqueue(echo(), { tags: ['red', null] }, { meta })
  const buried = await jobs.enqueue(fail, null, { meta })
  await jobs.enqueue(fail, null, { meta: { tags: ['other'], requestId: 'r-2' } })
  await drain(holdfast, [echo(), fail])
  const running = await jobs.enqueue(hold, null, { meta })
  const worker = holdfast.jobs.work([hold])
  await until('the job runs', () => worker.running === 1)
  const ready = await jobs.enqueue(echo('idle'), null, { meta })
  const waiting = await jobs.enqueue(echo('idle'), null, { meta, delay: '1h' })
  await jobs.enqueue(echo('idle'), null)
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  const observer = new Observer(database)
  const found = async (text: string) =>
    (await observer.jobs.search(readJobSearch(text))).rows.map(({ id }) => id).sort((a, b) => a - b)
  const all = [done, buried, running, ready, waiting].map(({ id }) => id)
  expect(await found('meta.requestId:r-1')).toEqual(all)
  expect(await found('meta.tags:billing')).toEqual(all)
  expect(await found('meta.tags:"ü \\"quoted\\"" meta.nested.n:1.5')).toEqual(all)
  expect(await found('meta.tags.0:billing state:waiting')).toEqual([waiting.id])
  expect(await found('meta.tags:bill')).toEqual([])
  expect(await found('meta.requestId:r-2 state:failed')).toHaveLength(1)
  expect(await found('meta.tags:red')).toEqual([])
  expect(await found('input.tags:red')).toEqual([done.id])
  expect(await found('meta.tags:null queue:idle')).toHaveLength(1)
  const { rows } = await observer.jobs.search(readJobSearch('queue:idle'))
  expect(rows.map(({ meta }) => meta)).toEqual([meta, {}, meta])
  expect(await observer.jobs.find(buried.id)).toMatchObject({ meta })
  await worker.close({ within: 0 })
})

test('a meta with any characters is stored, and does not affect jobs in the same statement', async () => {
  const { url, holdfast } = await openFresh()
  const metas: JobMeta[] = [{ a: 'x\0' }, { b: '\ud800' }, {}]
  const options: ((meta: JobMeta) => EnqueueOptions)[] = [
    () => ({}),
    (meta) => ({ unique: JSON.stringify(meta) }),
    () => ({ lane: 'l' }),
    () => ({ delay: '1h' }),
  ]
  for (const one of options)
    await Promise.all(metas.map((meta) => holdfast.jobs.enqueue(echo(), 1, { meta, ...one(meta) })))
  const stored = await sql<{ meta: string | null }>(
    url,
    'select meta::text from holdfast.job union all select meta::text from holdfast.waiting',
  )
  const texts = stored.map(({ meta }) => meta)
  expect(texts.sort()).toEqual(options.flatMap(() => ['{"a":"x\\u0000"}', '{"b":"\\ud800"}', null]).sort())
})
