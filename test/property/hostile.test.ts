// Handlers that throw, reject with, or return values that cannot be inspected. Such a handler ends its own attempt and nothing else. The next work
// of the same worker, schedule, campaign, key or name is done, and the process does not end.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import * as base from '../../src/base/index.js'
import { webhooks } from '../../src/http/index.js'
import {
  DrainingError,
  defineJob,
  type Holdfast,
  NonRetryableError,
  type RunCall,
  UsageError,
} from '../../src/index.js'
import { sqlstateOf } from '../../src/postgres/index.js'
import { instrument } from '../../src/telemetry/index.js'
import { anchorModes, rowsOf, work } from '../jobs/fixture.js'
import { sqlPool, sqlSession, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { waysOf } from '../setup/variants.js'
import { hostile, hostileValues, misbehave } from './hostile.ts'
import { randomFrom } from './random.ts'
import { seedOf } from './seed.js'

/** Number of inputs, from HOLDFAST_INPUTS. */
const many = Number(process.env.HOLDFAST_INPUTS ?? 30)
const random = randomFrom(seedOf('hostile values'))

const misbehaviours = (count: number) => Array.from({ length: count }, () => misbehave(random))

const unhandled: unknown[] = []
const record = (error: unknown) => unhandled.push(error)
beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', record)
  process.on('uncaughtException', record)
})
afterEach(async () => {
  // Node.js reports an unhandled rejection after the microtasks of its turn.
  await new Promise((resolve) => setTimeout(resolve, 20))
  process.off('unhandledRejection', record)
  process.off('uncaughtException', record)
  expect(unhandled.map((error) => base.errorLine(error))).toEqual([])
})

/** Closes the instance, which must be faster than the timeouts of close(). */
async function closes(holdfast: Holdfast): Promise<void> {
  await within(8_000, 'Closing', holdfast.close())
}

/** Waits until the promise has settled, without reading the value or the error. */
const settles = (promise: Promise<unknown>) =>
  within(
    10_000,
    'Settling',
    promise.then(
      () => {},
      () => {},
    ),
  )

test('the functions that inspect values of users never throw, and need little time and space', {
  timeout: 60_000,
}, () => {
  const random = randomFrom(seedOf('functions on hostile values'))
  const controller = new AbortController()
  controller.abort()
  const inspectors: Record<string, (value: unknown) => unknown> = {
    recordOf: base.toRecordedError,
    textOf: base.textOf,
    messageOf: base.messageOf,
    errorLine: base.errorLine,
    describe: base.describe,
    isError: base.isError,
    isThenable: base.isThenable,
    isRetryable: base.isRetryable,
    isInstance: (value) => base.isInstance(value, NonRetryableError),
    memberOf: (value) => typeof base.memberOf(value, 'message'),
    saysAborted: (value) => base.isAbortError(controller.signal, value),
    sqlstateOf,
    writeJson: (value) => {
      try {
        return base.toJson(value, 'a value')?.length
      } catch (error) {
        if (!(error instanceof UsageError)) throw error
        return error.message
      }
    },
  }
  const values = [...hostileValues, ...Array.from({ length: 3 * many }, () => hostile(random))]
  for (const { name, make } of values) {
    for (const [what, inspect] of Object.entries(inspectors)) {
      const value = make()
      const from = performance.now()
      let found: unknown
      try {
        found = inspect(value)
      } catch (error) {
        throw new Error(`${what} of ${name} throws`, { cause: base.errorLine(error) })
      }
      expect([what, name, performance.now() - from < 3_000]).toEqual([what, name, true])
      const size = JSON.stringify(found)?.length ?? 0
      expect([what, name, size < 30_000]).toEqual([what, name, true])
    }
  }
})

test.each(waysOf(anchorModes))(
  'a worker whose handlers misbehave does every other job ($name)',
  { timeout: 180_000 },
  async (way) => {
    const url = await databaseUrl()
    const { name: _, ...options } = way
    const holdfast = await open({ url, ...options })
    const stop = instrument(holdfast, { tracer: new BasicTracerProvider().getTracer('hostile') })
    onTestFinished(stop)
    const behaviors = [
      ...misbehaviours(many),
      // Every hostile value, thrown. One of the variants of this test is enough for these.
      ...(way.anchor === 'required' ? hostileValues : []).map(({ name, make }) => ({
        name: `throws ${name}`,
        run: () => {
          throw make()
        },
      })),
    ]
    for (const event of ['job.failed', 'job.done', 'job.started'] as const)
      holdfast.on(event, () => misbehave(random).run() as undefined)
    const retry = { attempts: 2, backoff: 5 }
    const bad = defineJob('bad', {
      retry,
      run({ at }: { at: number }, job) {
        if (at % 5 === 0) job.log(hostile(random).make() as string)
        if (at % 5 === 1) job.progress(hostile(random).make() as number)
        if (at % 5 === 2) return job.tx.query('select 1').then(() => behaviors[at]!.run())
        return behaviors[at]!.run()
      },
    })
    const inBatches = defineJob('in batches', {
      retry,
      batch: { size: 5 },
      run: (jobs: readonly { input: { at: number } }[]) => {
        // Usually returns hostile results for each job, sometimes misbehaves for the whole batch.
        if (jobs[0]!.input.at % 3 === 0) return behaviors[jobs[0]!.input.at]!.run() as never
        const results = jobs.map(() => hostile(random).make())
        return jobs[0]!.input.at % 3 === 1 ? results : (new Proxy(results, { get: oddly }) as unknown[])
      },
    })
    const good = defineJob('good', { run: ({ at }: { at: number }) => at })
    const worker = work(holdfast, [bad, inBatches, good], { concurrency: 4 })
    const ids: { id: number; name: string }[] = []
    const inputs = behaviors.map((_, at) => ({ at }))
    for (const definition of [bad, inBatches, good]) {
      const refs = await holdfast.jobs.enqueueMany(definition, inputs)
      ids.push(...refs.map(({ id }, at) => ({ id, name: `${definition.kind} ${at}: ${behaviors[at]!.name}` })))
    }
    const unfinished = async () => {
      const states = await Promise.all(ids.map(async ({ id, name }) => [name, (await holdfast.jobs.find(id))?.state]))
      return states.filter(([, state]) => state !== 'done' && state !== 'buried' && state !== 'cancelled')
    }
    const ended = await until(
      'all jobs have ended',
      async () => (await rowsOf(url)).history === ids.length,
      90_000,
    ).catch(async () => `left: ${JSON.stringify(await unfinished())}`)
    expect(ended).toBe(true)
    for (const { id, name } of ids.filter((one) => one.name.startsWith('good'))) {
      expect([name, (await holdfast.jobs.find(id))?.state]).toEqual([name, 'done'])
    }
    expect(worker.running).toBe(0)
    expect((await holdfast.health()).status).toBe('up')
    await until('no claim is left', async () => (await rowsOf(url)).claim === 0)
    await closes(holdfast)
  },
)

/** Getter of a list whose elements sometimes throw and whose length is correct. */
function oddly(target: readonly unknown[], key: string | symbol): unknown {
  if (key !== 'length' && key !== 'then' && random.chance(0.3)) throw hostile(random).make()
  return Reflect.get(target, key)
}

test('a handler that returns a thenable that never settles times out and blocks no other job', {
  timeout: 60_000,
}, async () => {
  const holdfast = await open({ url: await databaseUrl() })
  // biome-ignore lint/suspicious/noThenProperty: the test needs a thenable
  const never = defineJob('never', { timeout: '100ms', retry: { attempts: 1 }, run: () => ({ then() {} }) as never })
  const good = defineJob('good', { run: () => 'done' })
  work(holdfast, [never, good], { concurrency: 2 })
  const stuck = await holdfast.jobs.enqueue(never, null)
  expect(await holdfast.jobs.result((await holdfast.jobs.enqueue(good, null)).id)).toBe('done')
  const status = await until('the job is buried', async () => {
    const job = await holdfast.jobs.find(stuck.id)
    return job?.state === 'buried' && job
  })
  expect(status.failures).toMatchObject([{ code: 'JOB_TIMEOUT' }])
})

/** Ways in which a middleware's function misbehaves. */
const misusesOfNext: ((next: (change?: never) => Promise<unknown>) => unknown)[] = [
  () => misbehave(random).run(),
  (next) => next().then(() => misbehave(random).run()),
  (next) => {
    void next()
    return misbehave(random).run()
  },
  (next) => next(hostile(random).make() as never),
  (next) => next([hostile(random).make()] as never),
  (next) => next({ input: hostile(random).make(), meta: hostile(random).make() } as never),
]

test('a middleware that misbehaves ends its own calls, and nothing else', { timeout: 120_000 }, async () => {
  const url = await databaseUrl()
  const isBad = (name: string) => name.startsWith('bad')
  const nameOf = (call: RunCall) => (call.type === 'job' ? call.kind : call.type === 'schedule' ? call.name : call.key)
  let ticksAreBad = true
  const misuse = (next: (change?: never) => Promise<never>) => random.pick(misusesOfNext)(next) as Promise<unknown>
  const holdfast = await open({
    url,
    middleware: [
      {
        enqueue: ({ jobs }, next) => (jobs.some(({ kind }) => kind === 'bad enqueue') ? misuse(next as never) : next()),
        run: (call, next) =>
          isBad(nameOf(call)) && (call.type !== 'schedule' || ticksAreBad) ? misuse(next as never) : next(),
      },
    ],
  })
  const retry = { attempts: 2, backoff: 5 }
  const enqueued = defineJob('bad enqueue', { retry, run: (_: unknown) => 'done' })
  const bad = defineJob('bad', { retry, run: ({ at }: { at: number }) => at })
  const inBatches = defineJob('bad batch', {
    retry,
    batch: { size: 5 },
    run: (jobs: readonly object[]) => jobs.map(() => 1),
  })
  const good = defineJob('good', { run: ({ at }: { at: number }) => at })
  const worker = work(holdfast, [enqueued, bad, inBatches, good], { concurrency: 4 })
  let ticks = 0
  holdfast.schedules.add('bad tick', { every: '1s' }, () => {
    if (!ticksAreBad) ticks++
  })
  const inputs = Array.from({ length: 2 * many }, (_, at) => ({ at }))
  const ids: number[] = []
  for (const definition of [bad, inBatches, good]) {
    ids.push(...(await holdfast.jobs.enqueueMany(definition as typeof bad, inputs)).map(({ id }) => id))
  }
  for (const { at } of inputs) {
    await settles(holdfast.jobs.enqueue(enqueued, { at }))
    await settles(holdfast.once.run(`bad ${at}`, () => at))
  }
  await until(
    'all jobs have ended',
    async () => {
      const { job, history } = await rowsOf(url)
      return job === 0 && history! >= ids.length
    },
    60_000,
  )
  for (const id of ids.slice(-inputs.length)) expect((await holdfast.jobs.find(id))!.state).toBe('done')
  expect(await holdfast.once.run('good', () => 1)).toEqual({ status: 'done', value: 1 })
  ticksAreBad = false
  await until('the schedule runs again', () => ticks > 0, 20_000)
  expect(worker.running).toBe(0)
  expect((await holdfast.health()).reasons).toEqual([])
  await until('no claim is left', async () => (await rowsOf(url)).claim === 0)
  await closes(holdfast)
})

test('a function that opens transactions and misbehaves ends its own attempts, and nothing else', {
  timeout: 120_000,
}, async () => {
  const url = await databaseUrl()
  const pool = sqlPool({ connectionString: url, max: 20 })
  const inTransaction = async (work: (tx: never) => Promise<void>) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      await work(client as never)
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  }
  let calls = 0
  const ways: ((work: (tx: never) => Promise<void>) => unknown)[] = [
    () => misbehave(random).run(),
    (work) => inTransaction(work).then(() => misbehave(random).run()),
    (work) => inTransaction((tx) => work(tx).then(() => misbehave(random).run() as undefined)),
    (work) => inTransaction(() => work(hostile(random).make() as never)),
    inTransaction,
  ]
  const holdfast = await open({ url, transaction: ((work: never) => ways[calls++ % ways.length]!(work)) as never })
  const retry = { attempts: 2, backoff: 5 }
  const job = defineJob('job', { retry, run: async (_: unknown, { tx }) => void (await tx) })
  const good = defineJob('good', { run: (input: number) => input })
  const worker = work(holdfast, [job, good], { concurrency: 4 })
  const inputs = Array.from({ length: 2 * many }, (_, at) => at)
  await holdfast.jobs.enqueueMany(job, inputs)
  const goods = await holdfast.jobs.enqueueMany(good, inputs)
  for (const at of inputs) await settles(holdfast.once.run(`key ${at}`, async ({ tx }) => void (await tx)))
  await until('all jobs have ended', async () => (await rowsOf(url)).history === 2 * inputs.length, 60_000)
  for (const { id } of goods) expect((await holdfast.jobs.find(id))!.state).toBe('done')
  expect(worker.running).toBe(0)
  expect((await holdfast.health()).reasons).toEqual([])
  await until('no claim is left', async () => (await rowsOf(url)).claim === 0)
  await closes(holdfast)
})

test('a schedule whose handler misbehaves runs its next ticks', { timeout: 60_000 }, async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const runs = misbehaviours(Math.min(60, many)).map((behavior, at) => ({ ...behavior, at, count: 0 }))
  for (const one of runs) {
    holdfast.schedules.add(`s ${one.at}`, { every: '1s' }, (run) => {
      run.log(hostile(random).make() as string)
      one.count++
      return one.count === 1 ? (one.run() as Promise<void>) : undefined
    })
  }
  const late = () => runs.filter(({ count }) => count < 3).map(({ name }) => name)
  await until('all schedules run again', () => late().length === 0, 30_000).catch(() => expect(late()).toEqual([]))
  await closes(holdfast)
})

test('a campaign whose function misbehaves leads again', { timeout: 60_000 }, async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const campaigns = misbehaviours(Math.min(40, many)).map((behavior, at) => {
    const seen = {
      ...behavior,
      terms: 0,
      campaign: undefined as ReturnType<Holdfast['elections']['campaign']> | undefined,
    }
    seen.campaign = holdfast.elections.campaign(`e ${at}`, ({ signal }) => {
      seen.terms++
      if (seen.terms === 1) return behavior.run()
      return new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    return seen
  })
  const late = () => campaigns.filter(({ terms, campaign }) => terms < 2 || !campaign!.leads).map(({ name }) => name)
  await until('all campaigns lead again', () => late().length === 0, 30_000).catch(() => expect(late()).toEqual([]))
  expect((await holdfast.health()).status).toBe('up')
  await closes(holdfast)
})

test('a resource whose work misbehaves is worked on again', { timeout: 60_000 }, async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const behaviors = misbehaviours(Math.min(60, many))
  // Not named after the thrown values, because Holdfast rejects names that contain "undefined" or "null".
  const resources = behaviors.map((_, at) => `resource ${at}`)
  const seen = new Map<string, number>()
  let listings = 0
  const list = () => (++listings % 2 === 0 ? (hostile(random).make() as never) : resources)
  const assignment = holdfast.shares.assign('owned', resources, (resource, { signal }) => {
    seen.set(resource, (seen.get(resource) ?? 0) + 1)
    if (seen.get(resource) === 1) return behaviors[resources.indexOf(resource)]!.run()
    return new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  const late = () => resources.filter((resource) => (seen.get(resource) ?? 0) < 2)
  await until('work on all resources has started again', () => late().length === 0, 30_000).catch(() =>
    expect(late().map((resource) => behaviors[resources.indexOf(resource)]!.name)).toEqual([]),
  )
  assignment.update(list)
  await until('the list of resources was read five times', () => listings >= 5, 20_000)
  for (const [at, { name, run }] of behaviors.entries()) {
    const round = `${at}`
    await settles(holdfast.shares.each('round', ['a', 'b'], { round }, (one) => (one === 'a' ? run() : undefined)))
    // Resource b is done, and both resources are free.
    const again = await within(
      10_000,
      name,
      holdfast.shares.each('round', ['a', 'b'], { round }, () => {}),
    )
    expect([name, [...again.done, ...again.skipped].sort()]).toEqual([name, ['a', 'b']])
  }
  await closes(holdfast)
})

test('a key whose function misbehaves is free or has a result', { timeout: 60_000 }, async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const client = await sqlSession(url)
  for (const [at, { name, run }] of misbehaviours(many).entries()) {
    const failures = random.pick(['free', 'record'] as const)
    const ended = (key: string, again: () => Promise<{ status: string }>) =>
      within(10_000, `${name} of ${key}`, again()).then(
        ({ status }) => status,
        (error) => error.code,
      )
    await settles(holdfast.once.run(`a ${at}`, { failures }, () => run()))
    const status = await ended('once.run', () => holdfast.once.run(`a ${at}`, { wait: 0 }, () => 1))
    expect([name, ['done', 'replayed', 'ONCE_FAILED'].includes(status) || status]).toEqual([name, true])
    await client.query('begin')
    await settles(holdfast.once.inTransaction(client, `b ${at}`, { failures }, () => run()))
    await client.query('commit')
    const other = await ended('once.inTransaction', () => holdfast.once.run(`b ${at}`, { wait: 0 }, () => 1))
    expect([name, ['done', 'replayed', 'ONCE_FAILED'].includes(other) || other]).toEqual([name, true])
  }
  await closes(holdfast)
})

test('a webhook whose handler misbehaves processes the event at the next attempt', { timeout: 60_000 }, async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const events = webhooks(holdfast.once, {
    key: (request) => `event:${new URL(request.url, 'http://localhost').pathname}`,
  })
  let behavior: (() => unknown) | undefined
  const middleware = events.express()
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    middleware(request, response, (error?: unknown) => {
      if (error !== undefined) response.writeHead(500).end()
      else if (behavior) behavior()
      else response.end('good')
    })
  }).listen(0)
  onTestFinished(() => void server.close())
  const at = `http://localhost:${(server.address() as AddressInfo).port}`
  const handle = events.fetch((() => behavior?.() ?? new Response('good')) as () => Response)
  const misbehaving = misbehaviours(many)
  for (const [number, { name, run }] of misbehaving.entries()) {
    behavior = run
    await settles(handle(new Request(`http://localhost/fetch/${number}`)))
    // The handler throws synchronously, because only the framework handles asynchronous errors after `next`.
    const thrown = hostile(random)
    behavior = () => {
      throw thrown.make()
    }
    await settles(fetch(`${at}/node/${number}`))
    behavior = undefined
    const good = await within(10_000, name, handle(new Request(`http://localhost/fetch/${number}`)))
    expect([name, good.status, await good.text()]).toEqual([name, 200, 'good'])
    const node = await within(10_000, thrown.name, fetch(`${at}/node/${number}`))
    expect([thrown.name, node.status, await node.text()]).toEqual([thrown.name, 200, 'good'])
  }
  await closes(holdfast)
})

test('a name whose holder misbehaves is free for the next call', { timeout: 60_000 }, async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const rooms = {
    'locks.with': (run: () => unknown) => holdfast.locks.with('name', run),
    'leases.with': (run: () => unknown) => holdfast.leases.with('other', run),
    'limits.with': (run: () => unknown) => holdfast.limits.with('limit', { max: 1 }, run),
  }
  for (const { name, run } of misbehaviours(many)) {
    for (const [what, hold] of Object.entries(rooms)) {
      await settles(hold(run))
      const again = await within(
        10_000,
        `${what} after a handler that ${name}`,
        hold(() => 'good'),
      )
      expect([what, name, again]).toEqual([what, name, 'good'])
    }
  }
  await closes(holdfast)
})

test('a job outcome cannot be forged, and its reason may be any text', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const { JobOutcome } = await import('../../src/index.js')
  const forged = Object.assign(Object.create(Object.getPrototypeOf(JobOutcome.cancel())), {
    state: 'nonsense',
    delayMs: {},
  })
  const kinds = {
    forged: () => forged,
    'with zero bytes': () => JobOutcome.cancel('a\0b\uD800'),
    'with no text': () => JobOutcome.cancel(new DrainingError('worker') as never),
  }
  const definitions = Object.entries(kinds).map(([kind, run]) => defineJob(kind, { run, retry: { attempts: 1 } }))
  work(holdfast, definitions)
  const ids = await Promise.all(definitions.map((one) => holdfast.jobs.enqueue(one, null)))
  const states = () => Promise.all(ids.map(async ({ id }) => (await holdfast.jobs.find(id))?.state))
  await until('all jobs have ended', async () =>
    (await states()).every((state) => state !== 'ready' && state !== 'running'),
  )
  expect(await states()).toEqual(['done', 'cancelled', 'cancelled'])
})
