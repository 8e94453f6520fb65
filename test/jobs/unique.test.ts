import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  defineJob,
  type EnqueueOptions,
  type Holdfast,
  IsolationLevelError,
  NonRetryableError,
  UniqueKeyBusyError,
  UsageError,
} from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate, untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const start = (namespace: string) => open({ url: fresh.url, namespace })
const job = defineJob('job', { queue: 'unique', run: (n: number) => n })

const held = async (url = fresh.url) => {
  const [row] = await sql<{ count: number }>(url, 'select count(*)::int from holdfast.unique_job')
  return row!.count
}

/** Enqueues a job and returns its id, and whether it is new. */
const again = (holdfast: Holdfast, options: EnqueueOptions, n = 0) => holdfast.jobs.enqueue(job, n, options)

describe('a unique key', () => {
  test('a unique key is held by default until its job has ended, including its retries', async () => {
    const holdfast = await start('ended')
    const opening = gate()
    const tries: number[] = []
    const failing = defineJob('failing', {
      retry: { backoff: 10 },
      run: async (_: null, { attempt }) => {
        tries.push(attempt)
        if (attempt === 1) throw new Error('once')
        await opening.opened
      },
    })
    const first = await holdfast.jobs.enqueue(failing, null, { unique: 'invoice:42' })
    expect(first.isNew).toBe(true)
    const other = { id: first.id, isNew: false }
    expect(await holdfast.jobs.enqueue(failing, null, { unique: 'invoice:42' })).toEqual(other)
    work(holdfast, [failing])
    await until('the job runs a second time', () => tries.length === 2)
    expect(await holdfast.jobs.enqueue(failing, null, { unique: { key: 'invoice:42' } })).toEqual(other)
    expect((await holdfast.jobs.enqueue(failing, null, { unique: 'invoice:43', delay: '1h' })).isNew).toBe(true)
    opening.open()
    await holdfast.jobs.result(first.id)
    expect((await holdfast.jobs.enqueue(failing, null, { unique: 'invoice:42' })).isNew).toBe(true)
  })

  test('a unique key with until "started" is held only while its job waits', async () => {
    const holdfast = await start('started')
    const unique = { key: 'a', until: 'started' } as const
    const opening = gate()
    const ran: number[] = []
    const slow = defineJob('slow', {
      run: async (n: number) => {
        ran.push(n)
        await opening.opened
      },
    })
    const first = await holdfast.jobs.enqueue(slow, 1, { unique })
    expect(await holdfast.jobs.enqueue(slow, 2, { unique })).toEqual({ id: first.id, isNew: false })
    work(holdfast, [slow], { concurrency: 1 })
    await until('the first job runs', () => ran.length === 1)
    const second = await holdfast.jobs.enqueue(slow, 3, { unique })
    expect(second.isNew).toBe(true)
    expect(await holdfast.jobs.enqueue(slow, 4, { unique })).toEqual({ id: second.id, isNew: false })
    opening.open()
    await holdfast.jobs.result(second.id)
    expect(ran).toEqual([1, 3])
  })

  test('a unique key with a duration is held for that time after its job has ended, unless the job is cancelled', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    work(holdfast, [job])
    const unique = { key: 'a', for: '1h' } as const
    const first = await again(holdfast, { unique })
    await holdfast.jobs.result(first.id)
    expect(await again(holdfast, { unique })).toEqual({ id: first.id, isNew: false })
    const cancelled = await again(holdfast, { unique: { key: 'b', for: '1h' }, delay: '1h' })
    await holdfast.jobs.cancel(cancelled.id)
    expect((await again(holdfast, { unique: { key: 'b', for: '1h' } })).isNew).toBe(true)
    // After that time, another job takes the key, or maintenance deletes the key.
    await sql(url, "update holdfast.unique_job set expires_at = clock_timestamp() where key = 'a'")
    expect((await again(holdfast, { unique })).isNew).toBe(true)
    for (let n = 0; n < 5; n++) await again(holdfast, { unique: { key: `c${n}`, for: 1 } })
    await until('the expired keys are deleted', async () => (await held(url)) === 2)
  })

  test('a unique key is held only in its queue and for its kind', async () => {
    const holdfast = await start('scope')
    const kinds = [
      defineJob('one', { queue: 'one', run: () => {} }),
      defineJob('other', { queue: 'one', run: () => {} }),
      defineJob('one', { queue: 'other', run: () => {} }),
    ]
    for (const kind of kinds) expect((await holdfast.jobs.enqueue(kind, null, { unique: 'a' })).isNew).toBe(true)
    for (const kind of kinds) expect((await holdfast.jobs.enqueue(kind, null, { unique: 'a' })).isNew).toBe(false)
  })

  test('a unique key is released by every kind of end', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    const end = defineJob('end', {
      run: (how: string) => {
        if (how === 'buried') throw new NonRetryableError('no')
      },
    })
    const fragile = defineJob('end', { maxCrashes: 1, run: (_: string) => {} })
    const crashed = await holdfast.jobs.enqueue(fragile, 'crashed', { unique: 'crashed' })
    await sql(url, "insert into holdfast.worker (session, number, instance, queues) values (-7, 0, 'dead', '{}')")
    await sql(
      url,
      `with claimed as (
         select fence from holdfast.job_claim(-7, 1, array[(select queue from holdfast.job)], '{end}', 1, false, true)
       )
       insert into holdfast.job_note (id, fence, started) select $1, fence, true from claimed`,
      [crashed.id],
    )
    const delayed = await holdfast.jobs.enqueue(end, 'cancelled', { unique: 'delayed', delay: '1h' })
    const ready = await holdfast.jobs.enqueue(end, 'cancelled', { unique: 'ready' })
    for (const { id } of [delayed, ready]) await holdfast.jobs.cancel(id)
    const done = await holdfast.jobs.enqueue(end, 'done', { unique: 'done' })
    const buried = await holdfast.jobs.enqueue(end, 'buried', { unique: 'buried' })
    work(holdfast, [end])
    await untilState(holdfast, done.id, 'done')
    await untilState(holdfast, buried.id, 'buried')
    expect((await untilState(holdfast, crashed.id, 'buried')).error?.message).toBe(
      'The worker process ended or lost its database session while the job was running (crash 1 of 1)',
    )
    expect(await held(url)).toBe(0)
  })
})

describe('an enqueue whose unique key another job holds', () => {
  test('replace gives a waiting job the new input and priority, and keeps its time unless a new time is given', async () => {
    const holdfast = await start('replace')
    const unique = { key: 'a', existing: 'replace' } as const
    const first = await again(holdfast, { unique, delay: '1h' }, 1)
    const before = (await holdfast.jobs.find(first.id))!
    expect(await again(holdfast, { unique, priority: 2 }, 2)).toEqual({ id: first.id, isNew: false })
    expect(await holdfast.jobs.find(first.id)).toMatchObject({ input: 2, priority: 2, runAt: before.runAt })
    await again(holdfast, { unique, delay: '2h' }, 3)
    const after = (await holdfast.jobs.find(first.id))!
    expect(after.runAt!.getTime() - before.runAt!.getTime()).toBeGreaterThan(3_500_000)
    // A ready job can be replaced too: in place, with another priority, and with a delay.
    const ready = { key: 'b', existing: 'replace' } as const
    const second = await again(holdfast, { unique: ready }, 1)
    await again(holdfast, { unique: ready }, 2)
    expect(await holdfast.jobs.find(second.id)).toMatchObject({ state: 'ready', input: 2, priority: 0 })
    await again(holdfast, { unique: ready, priority: -1 }, 3)
    expect(await holdfast.jobs.find(second.id)).toMatchObject({ state: 'ready', input: 3, priority: -1 })
    await again(holdfast, { unique: ready, delay: 50 }, 4)
    expect(await holdfast.jobs.find(second.id)).toMatchObject({ state: 'waiting', input: 4 })
    work(holdfast, [job])
    expect(await holdfast.jobs.result(second.id)).toBe(4)
  })

  test('replace restarts a job that waits for a retry with the new input at its time, and keeps a running job', async () => {
    const holdfast = await start('replace in retry')
    const seen: [number, number][] = []
    const opening = gate()
    const fail = defineJob('fail', {
      retry: { attempts: 2, backoff: '1h' },
      run: async (n: number, { attempt }) => {
        seen.push([n, attempt])
        if (n === 1) throw new Error('no')
        await opening.opened
      },
    })
    const unique = { key: 'a', existing: 'replace' } as const
    const { id } = await holdfast.jobs.enqueue(fail, 1, { unique })
    work(holdfast, [fail])
    const { runAt } = await untilState(holdfast, id, 'waiting')
    await holdfast.jobs.enqueue(fail, 2, { unique })
    expect(await holdfast.jobs.find(id)).toMatchObject({ input: 2, failed: 0, runAt })
    expect(await holdfast.jobs.retry(id)).toBe(true)
    await until('the job runs a second time', () => seen.length === 2)
    expect(await holdfast.jobs.enqueue(fail, 3, { unique })).toEqual({ id, isNew: false })
    opening.open()
    await holdfast.jobs.result(id)
    expect(seen).toEqual([
      [1, 1],
      [2, 1],
    ])
  })

  test('debounce delays the job again with each further enqueue', async () => {
    const holdfast = await start('debounce')
    const ran: number[] = []
    const note = defineJob('note', { run: (n: number) => void ran.push(n) })
    work(holdfast, [note])
    const options = { unique: { key: 'a', existing: 'debounce' }, delay: 400 } as const
    const from = performance.now()
    const first = await holdfast.jobs.enqueue(note, 0, options)
    let last = 0
    let lastAt = 0
    while (performance.now() - from < 900) {
      await holdfast.jobs.enqueue(note, ++last, options)
      lastAt = performance.now()
      // A caller that enqueues repeatedly. Nothing happens meanwhile that the test could wait for.
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await holdfast.jobs.result(first.id)
    expect(ran).toEqual([last])
    expect(performance.now() - lastAt).toBeGreaterThan(390)
  })

  test('enqueueMany uses a separate unique key for each input', async () => {
    const holdfast = await start('many')
    const inputs = Array.from({ length: 6_000 }, (_, n) => n)
    const unique = (n: number) => `${n % 5_500}`
    const refs = await holdfast.jobs.enqueueMany(job, inputs, { unique })
    expect(refs.filter(({ isNew }) => isNew)).toHaveLength(5_500)
    for (const [n, { id }] of refs.slice(5_500).entries()) expect(id).toBe(refs[n]!.id)
    expect((await holdfast.jobs.find(refs[77]!.id))!.input).toBe(77)
    const later = await holdfast.jobs.enqueueMany(job, [1, -1], { unique: { key: unique, existing: 'replace' } })
    expect(later.map(({ isNew }) => isNew)).toEqual([false, true])
  })
})

describe('a transaction with a unique key', () => {
  test('an open transaction delays only the enqueues that want its unique keys', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    const client = await sqlSession(url)
    await client.query('begin')
    const mine = await again(holdfast, { unique: 'a', tx: client }, 1)
    const results: unknown[] = []
    const waiting = Array.from({ length: 30 }, () =>
      again(holdfast, { unique: 'a' }, 2).then((result) => results.push(result)),
    )
    const free = Array.from({ length: 30 }, (_, n) => again(holdfast, { unique: `free ${n}` }, 3))
    await within(5_000, 'Enqueueing other keys', Promise.all(free))
    await within(5_000, 'Enqueueing plain jobs', holdfast.jobs.enqueueMany(job, [1, 2, 3]))
    expect(results).toEqual([])
    await client.query('commit')
    await within(10_000, 'Enqueueing the key', Promise.all(waiting))
    expect(results).toEqual(Array.from({ length: 30 }, () => ({ id: mine.id, isNew: false })))
    // After a rollback, the key is free.
    await client.query('begin')
    await again(holdfast, { unique: 'b', tx: client }, 1)
    const next = again(holdfast, { unique: 'b' }, 2)
    await client.query('rollback')
    expect((await next).isNew).toBe(true)
  })

  test('a transaction that finds an existing job prevents the job from starting until the transaction has ended', async () => {
    const holdfast = await start('keeping')
    const elsewhere = await start('keeping')
    const ran: number[] = []
    const note = defineJob('note', { queue: 'noted', run: (n: number) => void ran.push(n) })
    const other = defineJob<unknown>('other', { run: () => {} })
    work(holdfast, [note, other])
    const runOthers = async (ms: number) => {
      for (const over = performance.now() + ms; performance.now() < over; ) {
        const refs = await holdfast.jobs.enqueueMany(other, [1, 2, 3])
        await holdfast.jobs.result(refs[2]!.id)
      }
    }
    const unique = { key: 'a', until: 'started' } as const
    const pause = () =>
      elsewhere.jobs.pause('noted').then(
        () => true,
        () => false,
      )
    await until('the worker has recorded its queue, so that it can be paused', pause)
    const { id } = await holdfast.jobs.enqueue(note, 1, { unique })
    // The worker skips the job, and learns that no entry can appear below its position.
    await runOthers(1_500)
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    expect(await holdfast.jobs.enqueue(note, 2, { unique, tx: client })).toEqual({ id, isNew: false })
    await elsewhere.jobs.resume('noted')
    await runOthers(2_500)
    expect(ran).toEqual([])
    await client.query('commit')
    await until('the job runs', () => ran.length === 1)
  })
})

test('retry and redrive make a job ready only if its unique key is free', async () => {
  const holdfast = await start('back')
  let isBroken = true
  const fail = defineJob('fail', {
    queue: 'back',
    retry: { attempts: 1 },
    run: (n: number) => {
      if (isBroken) throw new Error(`no ${n}`)
    },
  })
  const first = work(holdfast, [fail])
  const bury = async (n: number, unique: string) => {
    const { id } = await holdfast.jobs.enqueue(fail, n, { unique })
    await untilState(holdfast, id, 'buried')
    return id
  }
  const ids = [await bury(1, 'a'), await bury(2, 'a'), await bury(3, 'b'), await bury(4, 'c')]
  await first.close()
  const now = await holdfast.jobs.enqueue(fail, 5, { unique: 'c' })
  // Jobs 1 and 2 have the same key. A fifth job holds the key of job 4.
  expect(await holdfast.jobs.redrive('back')).toBe(2)
  expect(await holdfast.jobs.redrive('back')).toBe(0)
  const states = async () => Promise.all(ids.map(async (id) => (await holdfast.jobs.find(id))!.state))
  expect((await states()).filter((state) => state === 'buried')).toHaveLength(2)
  expect(await holdfast.jobs.retry(ids[3]!)).toBe(false)
  expect((await holdfast.jobs.enqueue(fail, 6, { unique: 'b' })).id).toBe(ids[2])
  isBroken = false
  work(holdfast, [fail])
  await holdfast.jobs.result(now.id)
  expect(await holdfast.jobs.retry(ids[3]!)).toBe(true)
  await holdfast.jobs.result(ids[3]!)
})

test('unique keys work with the isolation level repeatable read, and with postgres.js', async () => {
  const url = await databaseUrl()
  const database = new URL(url).pathname.slice(1)
  await sql(url, `alter database "${database}" set default_transaction_isolation to 'repeatable read'`)
  const client = postgres(url, { max: 5, onnotice: () => {} })
  onTestFinished(() => client.end())
  const fleet = [await open({ url }), await open({ sql: client })]
  const ran: number[] = []
  const note = defineJob('note', { queue: 'unique', run: (n: number) => void ran.push(n) })
  for (const existing of ['keep', 'replace'] as const) {
    const results = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        fleet[n % 2]!.jobs.enqueue(note, n, { unique: { key: existing, until: 'started', existing } }),
      ),
    )
    expect(results.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(new Set(results.map(({ id }) => id)).size).toBe(1)
  }
  for (const holdfast of fleet) work(holdfast, [note])
  await until('both jobs have run', () => ran.length === 2)
  expect(await held(url)).toBe(0)
})

test('holdfast.enqueue in SQL accepts a unique key', async () => {
  const holdfast = await start('sql')
  const enqueue = async (key: string) => {
    const [row] = await sql<{ id: string }>(
      fresh.url,
      `select holdfast.enqueue('unique', 'job', '7', namespace => 'sql', unique_key => $1) as id`,
      [key],
    )
    return Number(row!.id)
  }
  const id = await enqueue('x')
  expect(await enqueue('x')).toBe(id)
  expect(await again(holdfast, { unique: 'x' })).toEqual({ id, isNew: false })
  await expect(enqueue('')).rejects.toThrow('Expected unique_key to have 1 to 500 characters, got 0')
  work(holdfast, [job])
  expect(await holdfast.jobs.result(id)).toBe(7)
  expect(await enqueue('x')).not.toBe(id)
})

test('a unique key is free after its job was deleted by hand', async () => {
  const holdfast = await start('by hand')
  const { id } = await again(holdfast, { unique: 'a' })
  await sql(fresh.url, 'delete from holdfast.job where id = $1', [id])
  expect((await again(holdfast, { unique: 'a' })).isNew).toBe(true)
})

test('invalid unique options throw a UsageError', async () => {
  const holdfast = await start('mistakes')
  const refused = async (message: string, options: object) =>
    expect((await caught(UsageError, again(holdfast, options))).message).toContain(message)
  await refused('Expected unique to be a key, or an object that contains a key, got 7 (number)', { unique: 7 })
  await refused('Expected unique.key to be a string of 1 to 500 characters', { unique: '' })
  await refused('Expected unique.key to be a string of 1 to 500 characters without zero bytes, got undefined', {
    unique: {},
  })
  await refused('Expected unique.key to be a string, got a function', { unique: () => 'a' })
  await refused('Expected until to be "started" or "ended", got "end" (string)', { unique: { key: 'a', until: 'end' } })
  await refused('Expected either `until` or `for`, got both', { unique: { key: 'a', until: 'ended', for: '1m' } })
  await refused('Expected for to be a duration of at least 1ms', { unique: { key: 'a', for: 0 } })
  await refused('Expected a delay in combination with existing: "debounce"', {
    unique: { key: 'a', existing: 'debounce' },
  })
  const error = await caught(UsageError, holdfast.jobs.enqueueMany(job, [1], { unique: 'a' as never }))
  expect(error.message).toBe('Expected unique.key to be a function that returns the key for an input, got "a" (string)')
})

test('UniqueKeyBusyError shows that another transaction holds the key', () => {
  const error = new UniqueKeyBusyError(30)
  expect(error.message).toBe('Another transaction has been holding the same unique key for more than 30 s')
  expect(error).toMatchObject({ code: 'UNIQUE_KEY_BUSY', retryable: true })
})

test('a transaction with an old snapshot cannot replace a job that a worker has claimed in the meantime', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const runs: number[] = []
  const slow = defineJob('slow', {
    run: async (n: number) => {
      runs.push(n)
      await opening.opened
    },
  })
  const { id } = await holdfast.jobs.enqueue(slow, 1, { unique: 'k' })
  const client = await sqlSession(url)
  await client.query('begin isolation level repeatable read; select from holdfast.queue')
  work(holdfast, [slow])
  await until('the job runs', () => runs.length === 1)
  const replacing = holdfast.jobs.enqueue(slow, 2, { tx: client, unique: { key: 'k', existing: 'replace' } })
  expect((await caught(IsolationLevelError, replacing)).message).toContain('READ COMMITTED')
  await client.query('rollback')
  opening.open()
  await untilState(holdfast, id, 'done')
  expect(runs).toEqual([1])
})

test('a buried job whose key another transaction used when the job ended can be retried', async () => {
  const holdfast = await start('used key')
  const opening = gate()
  let runs = 0
  const failing = defineJob('failing', {
    queue: 'used key',
    run: async () => {
      if (++runs > 1) return
      await opening.opened
      throw new NonRetryableError('no')
    },
  })
  const { id } = await holdfast.jobs.enqueue(failing, null, { unique: 'k' })
  work(holdfast, [failing])
  await until('the job runs', () => runs === 1)
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  await client.query('select from holdfast.unique_job where id = $1 for update', [id])
  opening.open()
  await untilState(holdfast, id, 'buried')
  await client.query('commit')
  expect(await holdfast.jobs.redrive('used key')).toBe(1)
  await untilState(holdfast, id, 'done')
})

test('many jobs whose keys a transaction uses do not prevent another job from being claimed', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: number[] = []
  const note = defineJob('note', { run: (n: number) => void ran.push(n) })
  const unique = { unique: { key: (n: number) => `key ${n}`, existing: 'replace' } } as const
  const inputs = Array.from({ length: 200 }, (_, n) => n)
  await holdfast.jobs.enqueueMany(note, inputs, unique)
  const [many, one] = [await sqlSession(url), await sqlSession(url)]
  for (const client of [many, one]) await client.query('begin')
  await holdfast.jobs.enqueueMany(note, inputs.slice(0, 199), { ...unique, tx: many })
  await holdfast.jobs.enqueueMany(note, [199], { ...unique, tx: one })
  work(holdfast, [note], { concurrency: 2 })
  const skipped = async () => (await sql(url, 'select from holdfast.job_skipped')).length
  await until('the claims have skipped all jobs', async () => (await skipped()) === 200)
  await one.query('rollback')
  await until('the job with the free key has run', () => ran.includes(199), 5_000)
  expect(ran).toEqual([199])
  await many.query('rollback')
  await until('all jobs have run', () => ran.length === 200)
})
