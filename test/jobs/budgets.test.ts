import { expect, test } from 'vitest'
import { DatabaseUnreachableError, defineBudget, defineJob, type EnqueueOptions, UsageError } from '../../src/index.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate, intercept, rowsOf, untilState, work } from './fixture.js'

const faultsOf = (url: string) => sql(url, 'select * from holdfast.lane_faults()')

/** Waits until no lane, budget or round is left. They are deleted after their last job has ended. */
async function untilGone(url: string): Promise<void> {
  await until('no budget is left', async () => (await sql(url, 'select from holdfast.lane')).length === 0)
  expect(await sql(url, 'select from holdfast.follow_up')).toEqual([])
}

test('a budget limits the jobs of several queues and kinds, by weight, and waiting jobs occupy no slot', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 3 })
  const opening = gate()
  const running: string[] = []
  const define = (kind: string, queue: string) =>
    defineJob(kind, {
      queue,
      budgets: [provider],
      run: async (name: string) => {
        running.push(name)
        await opening.opened
      },
    })
  const [chat, image] = [define('chat', 'a'), define('image', 'b')]
  const free = defineJob('free', { queue: 'a', run: () => 'ran' })
  work(holdfast, [chat, image, free], { concurrency: 4 })
  await holdfast.jobs.enqueue(chat, 'chat 1')
  await until('the first job runs', () => running.length === 1)
  await holdfast.jobs.enqueue(image, 'image 2', { budgets: [{ budget: provider, weight: 2 }] })
  await until('the second job runs', () => running.length === 2)
  const heavy = await holdfast.jobs.enqueue(chat, 'heavy', { budgets: [{ budget: provider, weight: 3 }] })
  await untilWaiting(url, 1)
  const light = await holdfast.jobs.enqueue(image, 'light')
  await untilWaiting(url, 2)
  const why = (await holdfast.jobs.find(light.id))!.waitsFor
  expect(why).toMatchObject({ reason: 'budget', budget: 'provider', max: 3, used: 3, ahead: 1 })
  expect(why!.text).toBe('the budget provider: 3 of 3 are in use, behind 1 other')
  // One slot of the worker is free, although two jobs are waiting.
  expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(free))).toBe('ran')
  expect(await faultsOf(url)).toEqual([])
  opening.open()
  await untilState(holdfast, heavy.id, 'done')
  await untilState(holdfast, light.id, 'done')
  expect(running).toEqual(['chat 1', 'image 2', 'heavy', 'light'])
  await untilGone(url)
})

test('a job that ends in its second claim leaves its budget once, even if its first claim ends in the same statement', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const [ending, staying] = [gate(), gate()]
  const started: string[] = []
  const job = defineJob('job', {
    budgets: [defineBudget('provider', { max: 10 })],
    retry: { attempts: 2, backoff: 1 },
    run: async (name: string, { attempt }) => {
      if (name === 'again' && attempt === 1) throw new Error('first')
      started.push(name)
      await (name === 'stays' ? staying.opened : ending.opened)
    },
  })
  // The first claim contains one job, and the second claim the others.
  const jobs = await holdfast.jobs.enqueueMany(job, ['stays', 'again', 'b', 'c'])
  work(holdfast, [job], { concurrency: 4 })
  await until('all jobs run', () => started.length === 4)
  const claims = await sql<{ ids: string[] }>(url, 'select ids from holdfast.claim order by fence')
  expect(claims.map(({ ids }) => ids.length)).toEqual([1, 3, 1])
  ending.open()
  for (const { id } of jobs.slice(1)) await untilState(holdfast, id, 'done')
  await until('the follow-ups have run', async () => (await sql(url, 'select from holdfast.follow_up')).length === 0)
  expect(await sql(url, 'select active from holdfast.lane')).toEqual([{ active: 1 }])
  expect(await sql(url, 'select * from holdfast.lane_faults()')).toEqual([])
  staying.open()
})

test('a job with two budgets takes both or none, and holds nothing while it waits', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 2 })
  const tenant = defineBudget('tenant', { max: 1 })
  const gates = new Map<string, () => void>()
  const job = defineJob('job', {
    budgets: [provider],
    run: (name: string) => new Promise<void>((resolve) => gates.set(name, resolve)),
  })
  work(holdfast, [job], { concurrency: 10 })
  await holdfast.jobs.enqueue(job, 'x1', { budgets: [tenant.of('x')] })
  await until('x1 runs', () => gates.has('x1'))
  for (const name of ['x2', 'x3']) await holdfast.jobs.enqueue(job, name, { budgets: [tenant.of('x')] })
  await untilWaiting(url, 2)
  // The jobs of tenant x that wait do not use the provider's second place.
  await holdfast.jobs.enqueue(job, 'y1', { budgets: [tenant.of('y')] })
  await until('y1 runs', () => gates.has('y1'))
  await holdfast.jobs.enqueue(job, 'z1', { budgets: [tenant.of('z')] })
  await untilWaiting(url, 3)
  expect(await faultsOf(url)).toEqual([])
  gates.get('x1')!()
  // Both x2 and z1 have room now. The provider has one place, and x2 needs it as well as its tenant.
  await until('one more runs', () => gates.size === 3)
  gates.get('y1')!()
  await until('both run', () => gates.has('x2') && gates.has('z1'))
  expect(gates.has('x3')).toBe(false)
  gates.get('z1')!()
  gates.get('x2')!()
  await until('x3 runs', () => gates.has('x3'))
  gates.get('x3')!()
  await untilGone(url)
})

test('a job keeps its place in its lane while it waits for a budget, and frees it when it is cancelled', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 1 })
  const opening = gate()
  const order: string[] = []
  const job = defineJob('job', {
    run: async (name: string) => {
      order.push(name)
      if (name === 'first') await opening.opened
    },
  })
  work(holdfast, [job], { concurrency: 10 })
  await holdfast.jobs.enqueue(job, 'first', { budgets: [provider] })
  await until('the first job runs', () => order.length === 1)
  const held = await holdfast.jobs.enqueue(job, 'held', { lane: 'a', budgets: [provider] })
  await untilWaiting(url, 1)
  const behind = await holdfast.jobs.enqueue(job, 'behind', { lane: 'a' })
  await untilWaiting(url, 2)
  expect((await holdfast.jobs.find(behind.id))!.waitsFor).toMatchObject({ reason: 'lane', ahead: 0 })
  expect(await faultsOf(url)).toEqual([])
  expect(await holdfast.jobs.cancel(held.id)).toBe(true)
  await untilState(holdfast, behind.id, 'done')
  opening.open()
  await until('the first job has ended', async () => (await sql(url, 'select from holdfast.lane')).length === 0)
  expect(order).toEqual(['first', 'behind'])
  await untilGone(url)
})

test.each(['is cancelled', 'is delayed', 'gets a smaller priority', 'is replaced'] as const)(
  'a heavy job that %s lets the light job behind it start',
  async (how) => {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    const provider = defineBudget('provider', { max: 10 })
    const opening = gate()
    const ran: string[] = []
    const job = defineJob('job', {
      run: async (name: string) => {
        ran.push(name)
        if (name === 'long') await opening.opened
      },
    })
    work(holdfast, [job])
    const enqueue = (name: string, weight: number) =>
      holdfast.jobs.enqueue(job, name, { budgets: [{ budget: provider, weight }], unique: { key: name } })
    await enqueue('long', 8)
    await until('the first job runs', () => ran.length === 1)
    const heavy = await enqueue('heavy', 5)
    await untilWaiting(url, 1)
    await enqueue('light', 1)
    await untilWaiting(url, 2)
    const leavings = {
      'is cancelled': () => holdfast.jobs.cancel(heavy.id),
      'is delayed': () => holdfast.jobs.update(heavy.id, { delay: '1h' }),
      'gets a smaller priority': () => holdfast.jobs.update(heavy.id, { priority: -5 }),
      'is replaced': () =>
        holdfast.jobs.enqueue(job, 'heavy', { unique: { key: 'heavy', existing: 'replace' }, delay: '1h' }),
    }
    await leavings[how]()
    await until('the light job runs', () => ran.includes('light'), 5_000)
    expect(await faultsOf(url)).toEqual([])
    opening.open()
    await until('no other job runs', async () => (await rowsOf(url)).claim === 0)
    await holdfast.jobs.cancel(heavy.id)
    await untilGone(url)
  },
)

test('a job that expires while it waits for a budget frees its place in its lane, and no budget of it is left', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const [provider, tenant] = [defineBudget('provider', { max: 1 }), defineBudget('tenant', { max: 1 })]
  const opening = gate()
  const job = defineJob('job', {
    run: async (name: string) => {
      if (name === 'first') await opening.opened
    },
  })
  work(holdfast, [job])
  const first = await holdfast.jobs.enqueue(job, 'first', { budgets: [provider] })
  await untilState(holdfast, first.id, 'running')
  const options = { lane: 'a', budgets: [provider, tenant], startBy: 400 }
  const late = await holdfast.jobs.enqueue(job, 'late', options)
  await untilWaiting(url, 1)
  const behind = await holdfast.jobs.enqueue(job, 'behind', { lane: 'a' })
  await untilState(holdfast, late.id, 'expired')
  await untilState(holdfast, behind.id, 'done')
  expect(await faultsOf(url)).toEqual([])
  opening.open()
  // The job that expired waited for the provider, and was the only one that needed the tenant's budget.
  await untilGone(url)
})

test('a sleeping job gives its budget back, and a changed priority changes the turn', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 1 })
  const opening = gate()
  const order: string[] = []
  const job = defineJob('job', {
    budgets: [provider],
    run: async (name: string, job) => {
      if (name === 'sleeper') await job.sleep('1h')
      order.push(name)
      if (name === 'first') await opening.opened
    },
  })
  work(holdfast, [job])
  const sleeper = await holdfast.jobs.enqueue(job, 'sleeper')
  await untilState(holdfast, sleeper.id, 'waiting')
  await holdfast.jobs.enqueue(job, 'first')
  await until('the first job runs', () => order.length === 1)
  expect(await holdfast.jobs.retry(sleeper.id)).toBe(true)
  await untilWaiting(url, 1)
  await holdfast.jobs.enqueue(job, 'second')
  const third = await holdfast.jobs.enqueue(job, 'third')
  await untilWaiting(url, 3)
  expect(await holdfast.jobs.update(third.id, { priority: 5 })).toBe(true)
  await untilWaiting(url, 3)
  opening.open()
  await untilGone(url)
  expect(order).toEqual(['first', 'third', 'sleeper', 'second'])
})

test('groups take turns, by weight, and a job without a group goes to the end', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 1 })
  const order: string[] = []
  const job = defineJob('job', { budgets: [provider], run: (name: string) => void order.push(name) })
  const names = (group: string, count: number) => Array.from({ length: count }, (_, at) => `${group}${at}`)
  await holdfast.jobs.enqueueMany(job, names('a', 6), { group: 'a' })
  await untilWaiting(url, 5)
  await holdfast.jobs.enqueueMany(job, names('b', 2), { group: 'b' })
  await holdfast.jobs.enqueueMany(job, names('c', 4), { group: { name: 'c', weight: 2 } })
  await holdfast.jobs.enqueue(job, 'plain')
  await untilWaiting(url, 12)
  work(holdfast, [job], { concurrency: 1 })
  await until('all jobs have run', () => order.length === 13)
  // In each round, a and b get one turn, and c gets two.
  expect(order.slice(1, 5).toSorted()).toEqual(['a1', 'b0', 'c0', 'c1'])
  expect(order.slice(5, 9).toSorted()).toEqual(['a2', 'b1', 'c2', 'c3'])
  expect(order.slice(9)).toEqual(['a3', 'a4', 'a5', 'plain'])
  await untilGone(url)
})

test('a group without a budget is not delayed by the jobs of another group', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const order: string[] = []
  const job = defineJob('job', { run: (name: string) => void order.push(name) })
  const other = defineJob('other', { run: () => 'ran' })
  await holdfast.jobs.enqueueMany(job, new Array(2_000).fill('big'), { group: 'big' })
  // Without a worker, ten jobs are admitted.
  await untilWaiting(url, 1_990)
  const small = await holdfast.jobs.enqueue(job, 'small', { group: 'small' })
  await untilWaiting(url, 1_991)
  expect((await holdfast.jobs.find(small.id))!.waitsFor).toMatchObject({ reason: 'turn' })
  work(holdfast, [job, other], { concurrency: 5 })
  await untilState(holdfast, small.id, 'done')
  expect(order.indexOf('small')).toBeLessThan(40)
  await until('all jobs have run', () => order.length === 2_001)
  await untilGone(url)
})

test('the pace of a group that has been idle for a long time becomes 0', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  await holdfast.jobs.enqueueMany(job, new Array(20).fill(null), { group: 'a' })
  await untilWaiting(url, 10)
  // Each call may multiply the pace by e^-40. After a few calls without an ended job, the pace was too small for its type.
  await sql(url, "update holdfast.lane set pace = 1e-30, paced_at = now() - interval '1 hour'")
  await sql(url, "select holdfast.lane_fill(array_agg(key), array_agg(0)) from holdfast.lane where scope = 'round'")
  expect(await sql(url, "select pace from holdfast.lane where scope = 'round' order by version desc limit 1")).toEqual([
    { pace: 0 },
  ])
})

test('a rate counts weights, and admits the next job when there is room for its weight', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const tenant = defineBudget('tenant', { rate: { count: 10, per: '5s' } })
  let done = 0
  const job = defineJob('job', { run: () => void done++ })
  const use = (weight: number) => ({ budgets: [{ budget: tenant, weight }] })
  work(holdfast, [job])
  await holdfast.jobs.enqueueMany(job, [null, null], use(5))
  await until('two jobs have run', () => done === 2)
  const third = await holdfast.jobs.enqueue(job, null, use(5))
  await untilWaiting(url, 1)
  expect((await holdfast.jobs.find(third.id))!.waitsFor).toMatchObject({ reason: 'budget', budget: 'tenant' })
  await untilState(holdfast, third.id, 'done')
  const [entries] = await sql<{ ms: number }>(
    url,
    'select (extract(epoch from max(entered_at) - min(entered_at)) * 1000)::float8 as ms from holdfast.job',
  )
  // The third job needs half of the rate of five seconds.
  expect(entries!.ms).toBeGreaterThan(2_000)
  await untilGone(url)
})

test('a job from SQL, a child and a job in a transaction use budgets, and a retry takes its budget again', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 1 })
  const seen: string[] = []
  const child = defineJob('child', { budgets: [provider], run: () => void seen.push('child') })
  const job = defineJob('job', {
    budgets: [provider],
    retry: { attempts: 2, backoff: 10 },
    run: async (name: string, job) => {
      seen.push(`${name} ${job.attempt}`)
      if (name === 'fails' && job.attempt === 1) throw new Error('first')
      if (name === 'parent') await job.enqueue(child)
    },
  })
  work(holdfast, [job, child])
  const client = await sqlSession(url)
  await client.query('begin')
  const { id } = await holdfast.jobs.enqueue(job, 'parent', { tx: client })
  await client.query(`
    select holdfast.enqueue('default', 'job', '"sql"', budgets => '[{"name": "provider", "max": 1}]', in_group => 'a')
  `)
  await client.query('commit')
  const fails = await holdfast.jobs.enqueue(job, 'fails')
  await untilState(holdfast, fails.id, 'done')
  await untilState(holdfast, id, 'done')
  await until('all have run', () => ['child', 'sql 1', 'fails 2'].every((one) => seen.includes(one)))
  await untilGone(url)
})

test('invalid budgets and groups throw a UsageError', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(UsageError, async () => call())).message).toContain(message)
  await refused('Expected a budget with max or rate, got neither', () => defineBudget('a', {}))
  await refused('Expected budget.burst in combination with budget.rate', () => defineBudget('a', { max: 1, burst: 2 }))
  const budget = defineBudget('a', { max: 5, rate: '3/s' })
  const job = defineJob('job')
  const enqueue = (options: EnqueueOptions) => () => holdfast.jobs.enqueue(job, null, options)
  await refused('Expected a weight from 1 to 3 for the budget a, got 4', enqueue({ budgets: [{ budget, weight: 4 }] }))
  for (const budgets of [['a'], [{ budget }], 'a', [{ name: 'a' }]] as never[]) {
    await refused('Expected', enqueue({ budgets }))
  }
  for (const group of ['', { name: 'a', weight: 0 }, { weight: 2 }, 7] as never[]) {
    await refused('Expected', enqueue({ group }))
  }
  const twice = `select holdfast.enqueue('default', 'job', '1', budgets => '[{"name": "a", "max": 1}, {"name": "a", "max": 2}]')`
  await expect(sql(url, twice)).rejects.toThrow('Expected each budget at most once')
})

async function untilWaiting(url: string, jobs: number): Promise<void> {
  await until(`${jobs} jobs wait in lists`, async () => {
    const [row] = await sql<{ n: number }>(
      url,
      'select count(*)::int as n from holdfast.waiting where lane is not null',
    )
    return row!.n === jobs
  })
}

test('a job that is cancelled after the response to its claim was lost gives its budget back', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, expiry: '2s' })
  const ran: string[] = []
  const job = defineJob('job', {
    budgets: [defineBudget('provider', { max: 1 })],
    run: (name: string) => void ran.push(name),
  })
  const first = await holdfast.jobs.enqueue(job, 'first')
  const claimed = gate()
  let isLost = false
  intercept(holdfast, async (run, text) => {
    const result = await run()
    if (isLost || !text.includes('job_claim(') || (await sql(url, 'select from holdfast.claim')).length === 0)
      return result
    isLost = true
    claimed.open()
    await cancelled.opened
    throw new DatabaseUnreachableError('The response was lost')
  })
  const cancelled = gate()
  work(holdfast, [job])
  await claimed.opened
  expect(await holdfast.jobs.cancel(first.id)).toBe(true)
  const second = await holdfast.jobs.enqueue(job, 'second')
  await untilWaiting(url, 1)
  cancelled.open()
  await untilState(holdfast, first.id, 'cancelled')
  await untilState(holdfast, second.id, 'done')
  expect(ran).toEqual(['second'])
})

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('the jobs of one tenant do not take every free place of a budget that other tenants also need', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const provider = defineBudget('provider', { max: 2 })
  const tenant = defineBudget('tenant', { max: 2 })
  const keys = await sql<{ n: number; is_first: boolean }>(
    url,
    `select n, holdfast.lock_key('default', 'budget/tenant:' || n) < holdfast.lock_key('default', 'budget/provider') as is_first
     from generate_series(1, 200) as n`,
  )
  // The list of the first two tenants comes before the list of the provider, and the list of the last one after it.
  const [busy, other] = keys.filter((key) => key.is_first)
  const last = keys.find((key) => !key.is_first)
  for (const from of [busy, last]) {
    let ran = 0
    let seenAt: number | undefined
    const kind = `job of ${from!.n}`
    const needs = (n: number) => ({ budgets: [tenant.of(n)], group: `tenant:${n}` })
    const job = defineJob(kind, {
      queue: kind,
      budgets: [provider],
      run: async (n: number) => {
        if (n === other!.n) seenAt = ran
        if (n === other!.n || seenAt !== undefined) return
        ran++
        await holdfast.jobs.enqueue(job, n, needs(n))
        await pause(10)
      },
    })
    const worker = work(holdfast, [job], { concurrency: 10 })
    for (let n = 0; n < 10; n++) await holdfast.jobs.enqueue(job, from!.n, needs(from!.n))
    await until('the jobs of one tenant run', () => ran > 5)
    const before = ran
    await holdfast.jobs.enqueue(job, other!.n, needs(other!.n))
    await until('the job of the other tenant has run', () => seenAt !== undefined || ran > before + 150)
    expect(seenAt, `after the jobs of tenant ${from!.n}`).toBeDefined()
    await untilGone(url)
    await worker.close()
  }
})
