import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, test } from 'vitest'
import {
  defineJob,
  InvalidInputError,
  type JobCall,
  type JobChange,
  JobOutcome,
  type JobToEnqueue,
  type Middleware,
  type PastRun,
  type RunCall,
  type Schema,
  UsageError,
} from '../../src/index.js'
import { drain } from '../../src/testing/index.js'
import { gate, untilState, work } from '../jobs/fixture.js'
import { bossOf } from '../jobs/import-fixture.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

async function openWith(...middleware: Middleware[]) {
  const url = await databaseUrl()
  return { url, holdfast: await open({ url, middleware }) }
}

/** Middleware that wraps each input in an object, and unwraps it before the handler runs. */
const wrapping: Middleware = {
  enqueue: ({ jobs }, next) =>
    next(jobs.map(({ input, meta }) => ({ input: { wrapped: input }, meta: { ...meta, wrapped: true } }))),
  run: (call, next) =>
    call.type === 'job' && call.meta.wrapped === true
      ? next({ input: (call.input as { wrapped: unknown }).wrapped })
      : next(),
}

/** Accepts numbers only, and passes on their double. */
const numbers: Schema<number> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      typeof value === 'number'
        ? { value: value * 2 }
        : { issues: [{ message: `no number: ${JSON.stringify(value)}` }] },
  },
}

const echo = defineJob('echo', { run: (input: unknown, { meta }) => ({ input, meta }) })

describe('enqueue', () => {
  test('the layers of enqueue and run are called in the order of the list, and end in the opposite order', async () => {
    const order: string[] = []
    const layer = (name: string): Middleware => ({
      enqueue: async (_, next) => {
        order.push(`${name} enqueues`)
        const refs = await next()
        order.push(`${name} has enqueued ${refs.length}`)
      },
      run: async (_, next) => {
        order.push(`${name} runs`)
        const result = await next()
        order.push(`${name} has run`)
        return result
      },
    })
    const { holdfast } = await openWith(layer('outer'), { run: (_, next) => next() }, layer('inner'))
    const job = defineJob('job', { run: () => order.push('handler') })
    await holdfast.jobs.enqueue(job)
    await drain(holdfast, [job])
    expect(order).toEqual([
      'outer enqueues',
      'inner enqueues',
      'inner has enqueued 1',
      'outer has enqueued 1',
      'outer runs',
      'inner runs',
      'handler',
      'inner has run',
      'outer has run',
    ])
  })

  test('enqueue changes the input and the meta of jobs on every path', async () => {
    const { url, holdfast } = await openWith(wrapping)
    const { jobs } = holdfast
    const client = await sqlSession(url)
    await client.query('begin')
    const meta = { a: 1 }
    const refs = [
      await jobs.enqueue(echo, 'one', { meta }),
      await jobs.enqueue(echo, 'later', { delay: '1h', meta }),
      await jobs.enqueue(echo, 'in transaction', { tx: client, meta }),
      await jobs.enqueue(echo, 'unique', { unique: 'key', meta }),
      ...(await jobs.enqueueMany(echo, ['many 1', 'many 2'], { meta })),
      ...(await jobs.enqueueMany(echo, ['keyed 1', 'keyed 2'], { unique: (input) => String(input), meta })),
      ...(
        await jobs.enqueueWorkflow((workflow) => {
          const first = workflow.add(echo, 'first', { meta })
          workflow.add(echo, 'second', { after: [first], meta })
        })
      ).jobs,
    ]
    await client.query('commit')
    const parent = defineJob('parent', {
      run: async (_: null, { enqueue }) => (await enqueue(echo, 'child', { meta })).id,
    })
    const { id } = await jobs.enqueue(parent)
    for (const { id } of refs) {
      expect((await jobs.find(id))!.input).toEqual({ wrapped: expect.any(String) })
      expect((await jobs.find(id))!.meta).toEqual({ a: 1, wrapped: true })
    }
    const keys = await sql(url, 'select key from holdfast.unique_job order by key')
    expect(keys).toEqual(['key', 'keyed 1', 'keyed 2'].map((key) => ({ key })))
    await jobs.retry(refs[1]!.id)
    await drain(holdfast, [parent, echo])
    const child = (await jobs.find(id))!.result as number
    expect(await jobs.find(child)).toMatchObject({ input: { wrapped: 'child' }, meta: { a: 1, wrapped: true } })
    const results = await Promise.all([...refs.map((ref) => ref.id), child].map((id) => jobs.result(id)))
    expect(results.map((result) => (result as { input: string }).input)).toEqual([
      'one',
      'later',
      'in transaction',
      'unique',
      'many 1',
      'many 2',
      'keyed 1',
      'keyed 2',
      'first',
      'second',
      'child',
    ])
  })

  test('enqueue is called once for each call, with all jobs in order, and next resolves to their ids', async () => {
    const calls: { jobs: unknown; ids: number[] }[] = []
    const { holdfast } = await openWith({
      enqueue: async ({ jobs }, next) => {
        const refs = await next(jobs.map(({ input }) => ({ meta: { n: input } })))
        calls.push({ jobs, ids: refs.map(({ id }) => id) })
      },
    })
    const refs = await holdfast.jobs.enqueueMany(echo, [1, 2, 3], { meta: { old: true }, priority: 1 })
    const job = { kind: 'echo', queue: 'default', meta: { old: true } }
    expect(calls).toEqual([{ jobs: [1, 2, 3].map((input) => ({ ...job, input })), ids: refs.map(({ id }) => id) }])
    for (const [at, { id }] of refs.entries()) {
      expect(await holdfast.jobs.find(id)).toMatchObject({ input: at + 1, meta: { n: at + 1 }, priority: 1 })
    }
    expect(await holdfast.jobs.enqueueMany(echo, [])).toEqual([])
    expect(calls).toHaveLength(1)
  })

  test('enqueue receives the changes of the outer layers, and a change without input or meta keeps the old value', async () => {
    const seen: unknown[] = []
    const changing = (change: (job: JobToEnqueue) => JobChange): Middleware => ({
      enqueue: ({ jobs }, next) => {
        seen.push(...jobs.map(({ input, meta }) => ({ input, meta })))
        return next(jobs.map(change))
      },
    })
    const { holdfast } = await openWith(
      changing(({ input }) => ({ input: `${input} outer` })),
      changing(({ meta }) => ({ meta: { ...meta, inner: true } })),
      changing(({ input }) => ({ input: `${input} innermost` })),
    )
    const { id } = await holdfast.jobs.enqueue(echo, 'input', { meta: { a: 1 } })
    expect(seen).toEqual([
      { input: 'input', meta: { a: 1 } },
      { input: 'input outer', meta: { a: 1 } },
      { input: 'input outer', meta: { a: 1, inner: true } },
    ])
    expect(await holdfast.jobs.find(id)).toMatchObject({
      input: 'input outer innermost',
      meta: { a: 1, inner: true },
    })
  })

  test('enqueue wraps the jobs of schedules and imported jobs', async () => {
    const { url, holdfast } = await openWith(wrapping)
    holdfast.schedules.add('every', { every: '1s', job: echo, input: () => 'scheduled' })
    const scheduled = () => sql(url, "select meta from holdfast.job where payload->>'wrapped' = 'scheduled'")
    await until('the schedule has enqueued a job', async () => (await scheduled()).length > 0)
    expect(await scheduled()).toContainEqual({ meta: { wrapped: true } })
    const boss = await bossOf(url)
    await boss.createQueue('echo')
    await boss.send('echo', { big: 1 })
    await boss.createQueue('echo-short', { policy: 'short' })
    await boss.send('echo-short', { n: 1 }, { singletonKey: 'one' })
    expect((await holdfast.jobs.importFrom('pg-boss')).imported).toEqual([
      { kind: 'echo', jobs: 1 },
      { kind: 'echo-short', jobs: 1 },
    ])
    const rows = await sql(
      url,
      "select payload, meta from holdfast.job where payload->>'wrapped' like '{%' order by id",
    )
    expect(rows).toEqual([
      { payload: { wrapped: { big: 1 } }, meta: { wrapped: true } },
      { payload: { wrapped: { n: 1 } }, meta: { wrapped: true } },
    ])
  })

  test('the schema validates the original input before enqueue, and the changed input after run', async () => {
    const seen: unknown[] = []
    const { url, holdfast } = await openWith(
      {
        enqueue: ({ jobs }, next) => {
          seen.push(...jobs.map(({ input }) => input))
          return next()
        },
      },
      wrapping,
    )
    const double = defineJob('double', { input: numbers, run: (n: number) => n })
    await caught(InvalidInputError, holdfast.jobs.enqueue(double, 'x' as never))
    await caught(InvalidInputError, holdfast.jobs.enqueueMany(double, [1, 'x' as never]))
    await caught(
      InvalidInputError,
      holdfast.jobs.enqueueWorkflow((workflow) => workflow.add(double, 'x' as never)),
    )
    expect(seen).toEqual([])
    const { id } = await holdfast.jobs.enqueue(double, 21)
    expect(await sql(url, 'select payload from holdfast.job')).toEqual([{ payload: { wrapped: 21 } }])
    await drain(holdfast, [double])
    expect(await holdfast.jobs.result(id)).toBe(42)
  })

  test('an error of enqueue before next prevents the jobs, and a rejected next rejects the call', async () => {
    let wantsError = true
    const { url, holdfast } = await openWith({
      enqueue: async (_, next) => {
        if (wantsError) throw new Error('no tenant')
        // The error of `next` counts, although this function hides it.
        await next().catch(() => {})
      },
    })
    expect((await caught(Error, holdfast.jobs.enqueue(echo, 1))).message).toBe('no tenant')
    wantsError = false
    await caught(UsageError, holdfast.jobs.enqueue(echo, 1, { after: [10 ** 12] }))
    expect(await sql(url, 'select from holdfast.job')).toEqual([])
  })

  const wrongChanges: [string, unknown, string][] = [
    ['a list of another length', [], 'a list with a change for each of the 1 jobs, got a list of 0'],
    ['no list', { input: 1 }, 'a list with a change for each of the 1 jobs, got'],
    ['a number as change', [1], 'an object such as { input }, got 1 (number)'],
    ['a list as meta', [{ meta: ['a'] }], 'a plain object as meta, got'],
    ['an input that is no JSON', [{ input: 1n }], 'Expected an input that JSON can represent'],
    ['a meta that is no JSON', [{ meta: { a: 1n } }], 'Expected meta that JSON can represent'],
  ]
  test.each(wrongChanges)('a call fails if enqueue passes next %s', async (_, changes, message) => {
    const { url, holdfast } = await openWith({ enqueue: (_, next) => next(changes as never) })
    const error = await caught(UsageError, holdfast.jobs.enqueue(echo, 1))
    expect(error.message).toContain(message)
    expect(await sql(url, 'select from holdfast.job')).toEqual([])
  })
})

describe('run', () => {
  test('run receives the facts of the attempt, and its asynchronous context reaches the handler', async () => {
    const context = new AsyncLocalStorage<string>()
    const calls: RunCall[] = []
    const { holdfast } = await openWith({
      run: (call, next) => {
        calls.push(call)
        return context.run(call.type === 'job' ? `${call.kind} ${call.attempt}` : call.type, next)
      },
    })
    const job = defineJob('job', {
      retry: { attempts: 2, backoff: 0 },
      run: async (_: { n: number }, { attempt }) => {
        await Promise.resolve()
        if (attempt === 1) throw new Error('again')
        return context.getStore()
      },
    })
    const { id } = await holdfast.jobs.enqueue(job, { n: 1 }, { meta: { a: 1 } })
    await drain(holdfast, [job])
    expect(await holdfast.jobs.result(id)).toBe('job 2')
    const call = { type: 'job', id, kind: 'job', queue: 'default', input: { n: 1 }, meta: { a: 1 } }
    expect(calls).toMatchObject([
      { ...call, attempt: 1 },
      { ...call, attempt: 2 },
    ])
    expect((calls[0] as JobCall).signal).toBeInstanceOf(AbortSignal)

    calls.length = 0
    expect(await holdfast.once.run('key', () => context.getStore())).toEqual({ status: 'done', value: 'delivery' })
    expect(await holdfast.once.run('key', () => 'not called')).toEqual({ status: 'replayed', value: 'delivery' })
    expect(calls).toMatchObject([{ type: 'delivery', key: 'key' }])

    calls.length = 0
    const ran = gate()
    let inRun: string | undefined
    const schedule = holdfast.schedules.add('often', { every: '1s' }, () => {
      inRun = context.getStore()
      ran.open()
    })
    await ran.opened
    await schedule.close()
    expect(inRun).toBe('schedule')
    expect(calls[0]).toMatchObject({ type: 'schedule', name: 'often', tick: expect.any(Date), attempt: 1 })
  })

  test('run sees the error of the handler, and a returned value replaces the result or the error', async () => {
    const seen: unknown[] = []
    const { holdfast } = await openWith({
      run: async (call, next) => {
        const kind = (call as JobCall).kind
        try {
          const result = await next()
          if (kind === 'replaced') return 'new'
          if (kind === 'wrapped') return { result }
        } catch (error) {
          seen.push((error as Error).message)
          if (kind === 'rescued') return 'rescued'
          if (kind === 'discarded') return JobOutcome.discard('hopeless')
          if (kind === 'renamed') throw new TypeError('renamed', { cause: error })
        }
        // Returns nothing, so that the result or the error of `next` counts.
        return undefined
      },
    })
    const fails = (kind: string) =>
      defineJob(kind, {
        retry: { attempts: 1 },
        run: () => {
          throw new Error(`error of ${kind}`)
        },
      })
    const returns = (kind: string) => defineJob(kind, { run: () => 'old' })
    const all = [
      ...['kept', 'replaced', 'wrapped'].map(returns),
      ...['hidden', 'rescued', 'discarded', 'renamed'].map(fails),
    ]
    const refs = await Promise.all(all.map((job) => holdfast.jobs.enqueue(job)))
    await drain(holdfast, all)
    const found = await Promise.all(refs.map(({ id }) => holdfast.jobs.find(id)))
    expect(
      found.map((job) => ({ kind: job!.kind, state: job!.state, result: job!.result, error: job!.error?.message })),
    ).toEqual([
      { kind: 'kept', state: 'done', result: 'old', error: undefined },
      { kind: 'replaced', state: 'done', result: 'new', error: undefined },
      { kind: 'wrapped', state: 'done', result: { result: 'old' }, error: undefined },
      { kind: 'hidden', state: 'buried', result: undefined, error: 'error of hidden' },
      { kind: 'rescued', state: 'done', result: 'rescued', error: undefined },
      { kind: 'discarded', state: 'discarded', result: undefined, error: 'hopeless' },
      { kind: 'renamed', state: 'buried', result: undefined, error: 'renamed' },
    ])
    expect(seen.sort()).toEqual(['discarded', 'hidden', 'renamed', 'rescued'].map((kind) => `error of ${kind}`))
  })

  test.each([null, false, 0, ''])('run replaces the input and the result with %j', async (value) => {
    const { holdfast } = await openWith(
      { run: async (_, next) => [await next(), value] },
      { run: (_, next) => next({ input: value }).then(() => value) },
    )
    const seen: unknown[] = []
    const job = defineJob('job', { run: (input: unknown) => seen.push(input) })
    const { id } = await holdfast.jobs.enqueue(job, 'old')
    await drain(holdfast, [job])
    expect(seen).toEqual([value])
    expect(await holdfast.jobs.result(id)).toEqual([value, value])
  })

  test('run wraps deliveries in the transaction of the caller', async () => {
    const { url, holdfast } = await openWith({ run: async (call, next) => [call.type, await next()] })
    const client = await sqlSession(url)
    await client.query('begin')
    expect(await holdfast.once.inTransaction(client, 'key', () => 'handler')).toEqual({
      status: 'done',
      value: ['delivery', 'handler'],
    })
    await client.query('commit')
  })

  test('a run of a schedule fails with the error of its middleware, and its handler does not run', async () => {
    const { holdfast } = await openWith({
      run: async () => {
        throw new Error('no tenant')
      },
    })
    let runs = 0
    await holdfast.schedules.add('often', { every: '1h' }, () => runs++).ready()
    await holdfast.schedules.run('often')
    const latest = async () => (await holdfast.schedules.runs('often', { limit: 1 }))[0] as PastRun | undefined
    await until('the run has failed', async () => (await latest())?.state === 'failed')
    expect((await latest())!.error!.message).toBe('no tenant')
    expect(runs).toBe(0)
  })

  test('run sees an input that the schema rejects as an error, and the job is buried', async () => {
    const seen: unknown[] = []
    const { url, holdfast } = await openWith({
      run: async (_, next) => {
        try {
          return await next()
        } catch (error) {
          seen.push(error)
          throw error
        }
      },
    })
    await sql(url, "select holdfast.enqueue('default', 'double', '\"x\"')")
    const double = defineJob('double', { input: numbers, run: (n: number) => n })
    const [ended] = await drain(holdfast, [double])
    expect(ended).toMatchObject({ state: 'buried' })
    expect(seen).toEqual([expect.any(InvalidInputError)])
  })

  test('the jobs of a batch pass run one by one, each with its own input and outcome', async () => {
    const seen: string[] = []
    const { holdfast } = await openWith(
      {
        run: async (call, next) => {
          const { input } = call as JobCall
          if (JSON.stringify(input).includes('refused')) throw new Error('refused by the middleware')
          try {
            return await next()
          } catch (error) {
            seen.push(`${JSON.stringify(input)}: ${(error as Error).message}`)
            throw error
          }
        },
      },
      wrapping,
    )
    const batches: string[][] = []
    const job = defineJob('batch', {
      batch: { size: 10, wait: '200ms' },
      retry: { attempts: 1 },
      run: (jobs: readonly { input: string }[]) => {
        batches.push(jobs.map(({ input }) => input))
        return jobs.map(({ input }) => (input === 'bad' ? new Error('bad one') : input.toUpperCase()))
      },
    })
    const refs = await holdfast.jobs.enqueueMany(job, ['a', 'refused', 'bad', 'b'])
    work(holdfast, [job])
    const states = ['done', 'buried', 'buried', 'done']
    const found = await Promise.all(refs.map(({ id }, at) => untilState(holdfast, id, states[at]!)))
    expect(batches).toEqual([['a', 'bad', 'b']])
    expect(found.map(({ result, error }) => result ?? error?.message)).toEqual([
      'A',
      'refused by the middleware',
      'bad one',
      'B',
    ])
    expect(seen).toEqual(['{"wrapped":"bad"}: bad one'])
    const alone = await holdfast.jobs.enqueue(job, 'refused')
    await untilState(holdfast, alone.id, 'buried')
    expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(job, 'c'))).toBe('C')
    expect(batches.slice(1)).toEqual([['c']])
  })

  test('an attempt ends only after the handler has ended, even if run does not wait for next', async () => {
    const { holdfast } = await openWith({
      run: async (_, next) => {
        void next()
        return 'early'
      },
    })
    const released = gate()
    let isOver = false
    const job = defineJob('job', {
      run: async () => {
        await released.opened
        isOver = true
      },
    })
    const { id } = await holdfast.jobs.enqueue(job)
    const worker = work(holdfast, [job])
    await until('the job runs', () => worker.running === 1)
    expect((await holdfast.jobs.find(id))!.state).toBe('running')
    released.open()
    expect(await holdfast.jobs.result(id)).toBe('early')
    expect(isOver).toBe(true)
  })

  test('a job with middleware times out, and its signal aborts in the middleware', async () => {
    const reasons: unknown[] = []
    const { holdfast } = await openWith({
      run: (call, next) => {
        call.signal.addEventListener('abort', () => reasons.push(call.signal.reason.code))
        return next()
      },
    })
    const job = defineJob('job', {
      timeout: 50,
      retry: { attempts: 1 },
      run: (_: null, { signal }) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve())),
    })
    const { id } = await holdfast.jobs.enqueue(job)
    work(holdfast, [job])
    expect(await untilState(holdfast, id, 'buried')).toMatchObject({ error: { code: 'JOB_TIMEOUT' } })
    expect(reasons).toEqual(['JOB_TIMEOUT'])
  })
})

describe('wrong use', () => {
  const misuses: [string, NonNullable<Middleware['run']>, string][] = [
    ['does not call next', async () => 'done', 'middleware[0].run to call next() exactly once, got no call'],
    [
      'calls next twice',
      async (_, next) => {
        await next()
        await next().catch(() => {})
      },
      'middleware[0].run to call next() exactly once, got a second call',
    ],
    [
      'passes next no object',
      (_, next) => next(1 as never),
      'middleware[0].run to pass next() an object such as { input }, got 1 (number)',
    ],
  ]
  test.each(misuses)('an attempt fails if run %s', async (_, run, message) => {
    const { holdfast } = await openWith({ run })
    let runs = 0
    const job = defineJob('job', { retry: { attempts: 1 }, run: () => void runs++ })
    const { id } = await holdfast.jobs.enqueue(job)
    await drain(holdfast, [job])
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'buried', error: { name: 'UsageError' } })
    expect((await holdfast.jobs.find(id))!.error!.message).toContain(message)
    expect(runs).toBeLessThanOrEqual(1)
    const error = await caught(
      UsageError,
      holdfast.once.run('key', () => 1),
    )
    expect(error.message).toContain(message)
    const worker = defineJob('batch', { batch: { size: 5 }, retry: { attempts: 1 }, run: () => {} })
    const batch = await holdfast.jobs.enqueueMany(worker, [null, null])
    await drain(holdfast, [worker])
    for (const { id } of batch) expect((await holdfast.jobs.find(id))!.error!.message).toContain(message)
  })

  test.each([
    ['does not call next', async () => {}, 'middleware[0].enqueue to call next() exactly once, got no call'],
    [
      'calls next twice',
      async (_: unknown, next: () => Promise<unknown>) => {
        await Promise.allSettled([next(), next()])
      },
      'middleware[0].enqueue to call next() exactly once, got a second call',
    ],
  ])('a call fails if enqueue %s', async (_, enqueue, message) => {
    const { url, holdfast } = await openWith({ enqueue })
    for (const call of [
      () => holdfast.jobs.enqueue(echo, 1),
      () => holdfast.jobs.enqueueMany(echo, [1]),
      () => holdfast.jobs.enqueueWorkflow((workflow) => workflow.add(echo, 1)),
    ]) {
      expect((await caught(UsageError, call())).message).toContain(message)
    }
    expect((await sql(url, 'select from holdfast.job')).length).toBeLessThanOrEqual(3)
  })

  test('a call of next after the function has ended is rejected', async () => {
    let late: Promise<unknown> | undefined
    const { holdfast } = await openWith({
      run: async (_, next) => {
        const result = await next()
        setTimeout(() => {
          late = next()
        })
        return result
      },
    })
    expect(await holdfast.once.run('key', () => 1)).toMatchObject({ value: 1 })
    await until('next has been called late', () => late !== undefined)
    expect((await caught(UsageError, late!)).message).toContain('got a call after the function had ended')
  })

  test('run changes the input of jobs only', async () => {
    const { holdfast } = await openWith({ run: (_, next) => next({ input: 1 }) })
    const error = await caught(
      UsageError,
      holdfast.once.run('key', () => 1),
    )
    expect(error.message).toBe(
      'Expected middleware[0].run to change the input of a job only, got an input for a delivery',
    )
  })

  test.each([
    ['no list', {}, 'Expected middleware to be a list of middleware, got an object'],
    ['a number in the list', [1], 'Expected middleware[0] to be an object with the functions enqueue or run, got 1'],
    ['an empty object', [{}], 'Expected middleware[0] to have the function enqueue or run, got neither'],
    ['another name', [{ runs: () => {} }], 'middleware[0] has no option "runs": did you mean "run"?'],
    ['no function', [{ run: 1 }], 'Expected run to be a function, got 1 (number)'],
  ])('Holdfast.open rejects %s', async (_, middleware, message) => {
    const error = await caught(
      UsageError,
      open({ url: 'postgres://127.0.0.1:1/none', middleware: middleware as never }),
    )
    expect(error.message).toContain(message)
  })

  test('the functions of a class are called with their object, and an empty list changes nothing', async () => {
    class Counting implements Middleware {
      calls = 0
      async run(_: RunCall, next: () => Promise<unknown>): Promise<unknown> {
        this.calls++
        return next()
      }
    }
    const counting = new Counting()
    const { holdfast } = await openWith(counting)
    await holdfast.once.run('key', () => 1)
    expect(counting.calls).toBe(1)
    const { holdfast: plain } = await openWith()
    expect(plain.context).toMatchObject({ middleware: { enqueue: undefined, run: undefined } })
  })
})
