// Tests what close() does with calls that are not awaited, and the behaviour of calls after close().
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ClosedError, defineJob, type Holdfast } from '../../src/index.js'
import { startProgram } from '../cli/program.js'
import { caught, gate, sql, sqlPool, sqlSession, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const job = defineJob('job', { run: (_: unknown) => {} })
const work = () => {}
type Client = Awaited<ReturnType<typeof sqlSession>>

/** Calls every method of every room. */
const calls: Record<string, Record<string, (holdfast: Holdfast, client: Client) => unknown>> = {
  locks: {
    acquire: ({ locks }) => locks.acquire('a'),
    tryAcquire: ({ locks }) => locks.tryAcquire('a'),
    with: ({ locks }) => locks.with('a', work),
    inTransaction: ({ locks }, client) => locks.inTransaction(client, 'a'),
    tryInTransaction: ({ locks }, client) => locks.tryInTransaction(client, 'a'),
    space: ({ locks }) => locks.space('a'),
  },
  leases: {
    acquire: ({ leases }) => leases.acquire('a'),
    tryAcquire: ({ leases }) => leases.tryAcquire('a'),
    with: ({ leases }) => leases.with('a', work),
    release: ({ leases }) => leases.release('a', 'token'),
  },
  limits: {
    acquire: ({ limits }) => limits.acquire('a', { max: 1 }),
    tryAcquire: ({ limits }) => limits.tryAcquire('a', { max: 1 }),
    with: ({ limits }) => limits.with('a', { max: 1 }, work),
    consume: ({ limits }) => limits.consume('a', { rate: '1/s' }),
    usage: ({ limits }) => limits.usage('a'),
  },
  elections: {
    campaign: ({ elections }) => elections.campaign('a', work),
    leader: ({ elections }) => elections.leader('a'),
    watch: ({ elections }) => elections.watch('a'),
  },
  once: {
    run: ({ once }) => once.run('a', work),
    inTransaction: ({ once }, client) => once.inTransaction(client, 'a', work),
    forget: ({ once }) => once.forget('a'),
  },
  jobs: {
    enqueue: ({ jobs }) => jobs.enqueue(job, 1),
    enqueueMany: ({ jobs }) => jobs.enqueueMany(job, [1]),
    enqueueWorkflow: ({ jobs }) => jobs.enqueueWorkflow((workflow) => void workflow.add(job, 1)),
    importFrom: ({ jobs }) => jobs.importFrom('pg-boss'),
    workflow: ({ jobs }) => jobs.workflow(1),
    work: ({ jobs }) => jobs.work([job]),
    update: ({ jobs }) => jobs.update(1, { priority: 1 }),
    list: ({ jobs }) => jobs.list(),
    queues: ({ jobs }) => jobs.queues(),
    cancelMany: ({ jobs }) => jobs.cancelMany({ kind: 'a' }),
    retryMany: ({ jobs }) => jobs.retryMany({ kind: 'a' }),
    watch: ({ jobs }) => jobs.watch(1).next(),
    cancel: ({ jobs }) => jobs.cancel(1),
    retry: ({ jobs }) => jobs.retry(1),
    send: ({ jobs }) => jobs.send(1, 'approved'),
    find: ({ jobs }) => jobs.find(1),
    result: ({ jobs }) => jobs.result(1),
    pause: ({ jobs }) => jobs.pause('default'),
    resume: ({ jobs }) => jobs.resume('default'),
    redrive: ({ jobs }) => jobs.redrive('default'),
  },
  shares: {
    each: ({ shares }) => shares.each('a', ['b'], work),
    assign: ({ shares }) => shares.assign('a', ['b'], work),
  },
  schedules: {
    add: ({ schedules }) => schedules.add('a', { every: '1h' }, work),
    pause: ({ schedules }) => schedules.pause('a'),
    resume: ({ schedules }) => schedules.resume('a'),
    override: ({ schedules }) => schedules.override('a', null),
    run: ({ schedules }) => schedules.run('a'),
    find: ({ schedules }) => schedules.find('a'),
    list: ({ schedules }) => schedules.list(),
    runs: ({ schedules }) => schedules.runs('a'),
    upsert: ({ schedules }) => schedules.upsert('a', { every: '1h', job, input: 1 }),
    remove: ({ schedules }) => schedules.remove('a'),
  },
}

/** Methods that need no database. */
const pure = ['locks.key', 'locks.pair']

describe.each(['url', 'pool', "anchor: 'none'"] as const)('after close of an instance opened with %s', (way) => {
  async function openAndClose() {
    const url = await databaseUrl()
    const pool = sqlPool({ connectionString: url })
    const holdfast = await open(way === 'pool' ? { pool } : { url, anchor: way === 'url' ? 'required' : 'none' })
    await holdfast.close()
    const client = await sqlSession(url)
    await client.query('begin')
    return { holdfast, client }
  }

  test('every method of every room throws a ClosedError whose stack contains the call', async () => {
    const { holdfast, client } = await openAndClose()
    for (const [room, methods] of Object.entries(calls)) {
      for (const [method, call] of Object.entries(methods)) {
        const error = await Promise.resolve(client)
          .then(() => call(holdfast, client))
          .then(
            () => 'no error',
            (reason) => reason,
          )
        expect(error, `${room}.${method}`).toBeInstanceOf(ClosedError)
        expect(error.message, `${room}.${method}`).toBe('This instance is closed')
        expect(error.stack, `${room}.${method}`).not.toContain('Holdfast.close')
      }
    }
  })

  test('doctor throws a ClosedError, health reports down, and drain returns true', async () => {
    const { holdfast } = await openAndClose()
    await caught(ClosedError, holdfast.doctor())
    expect(await holdfast.health()).toMatchObject({ status: 'down', reasons: [{ code: 'CLOSING' }] })
    expect(await holdfast.drain()).toBe(true)
    await holdfast.close()
  })
})

test('the tables of this test contain every method of every room', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  for (const [room, methods] of Object.entries(calls)) {
    const prototype = Object.getPrototypeOf(holdfast[room as 'locks'])
    const known = Object.entries(Object.getOwnPropertyDescriptors(prototype))
      .filter(([name, { value }]) => typeof value === 'function' && name !== 'constructor')
      .map(([name]) => `${room}.${name}`)
      .filter((name) => !pure.includes(name) && !internalOf(room).has(name))
    expect(
      Object.keys(methods)
        .map((name) => `${room}.${name}`)
        .sort(),
    ).toEqual(known.sort())
  }
})

/** Returns the methods that are marked as internal. No blank line precedes the implementation of a method with overloads. */
function internalOf(room: string): Set<string> {
  const source = readFileSync(new URL(`../../src/${room}/${room}.ts`, import.meta.url), 'utf8')
  const methods = source.matchAll(/\n\n {2}\/\*\*[\s*]*@internal(?:(?!\*\/)[\s\S])*\*\/\n {2}(?:async )?\*?(\w+)[(<]/g)
  return new Set([...methods].map(([, name]) => `${room}.${name}`))
}

test('close waits for the writes of calls that are not awaited', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'kept' })
  const [first, cancelled] = await holdfast.jobs.enqueueMany(job, [0, 'cancelled'])
  holdfast.schedules.add('a', { cron: '0 3 1 1 *' }, work)
  await holdfast.once.run('key', work)
  await holdfast.schedules.find('a')
  void holdfast.jobs.enqueue(job, 1)
  void holdfast.jobs.enqueue(job, 2, { after: [first!] })
  void holdfast.jobs.enqueueMany(job, [3, 4])
  void holdfast.jobs.enqueueWorkflow((workflow) => void workflow.add(job, 5))
  void holdfast.jobs.cancel(cancelled!.id)
  void holdfast.jobs.pause('default')
  void holdfast.schedules.pause('a')
  void holdfast.once.forget('key')
  await holdfast.close()
  const payloads = await sql(
    url,
    'select payload::text from holdfast.job_live union all select payload::text from holdfast.waiting order by 1',
  )
  expect(payloads).toEqual(['0', '1', '2', '3', '4', '5'].map((payload) => ({ payload })))
  expect(await sql(url, 'select from holdfast.job_history')).toHaveLength(1)
  expect(await sql(url, 'select paused_at is not null as paused from holdfast.queue')).toEqual([{ paused: true }])
  expect(await sql(url, 'select from holdfast.delivery')).toEqual([])
  const other = await open({ url, namespace: 'kept' })
  expect(await other.schedules.find('a')).toMatchObject({ nextAt: undefined })
})

test('a process that does not await a lock and an enqueue ends with an error that names the lock, and the job is stored', async () => {
  const url = await databaseUrl()
  const holder = await open({ url })
  await holder.locks.acquire('taken')
  const program = `
    import { defineJob, Holdfast } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
    const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })
    holdfast.locks.with('taken', () => {})
    holdfast.jobs.enqueue(defineJob('forgotten', { run() {} }), 7)
    await holdfast.close()`
  const { status, stderr } = await startProgram(process.execPath, ['--input-type=module', '-e', program], {
    DATABASE_URL: url,
  }).ended
  expect(status).toBe(1)
  expect(stderr).toContain('ClosedError: This instance was closed during locks.with of "taken"')
  expect(stderr).toContain('Await the call before you call close().')
  expect(await sql(url, 'select kind, payload from holdfast.job_live')).toEqual([{ kind: 'forgotten', payload: 7 }])
})

describe('close during a call that waits', () => {
  const waits: Record<string, (holdfast: Holdfast) => Promise<unknown>> = {
    'locks.acquire of "taken"': ({ locks }) => locks.acquire('taken'),
    'locks.tryAcquire of "taken, free"': ({ locks }) => locks.tryAcquire(['taken', 'free'], { wait: '20s' }),
    'locks.with of "taken"': ({ locks }) => locks.with('taken', work),
    'leases.acquire of "taken"': ({ leases }) => leases.acquire('taken'),
    'leases.with of "taken"': ({ leases }) => leases.with('taken', work),
    'limits.acquire of "taken"': ({ limits }) => limits.acquire('taken', { max: 1, wait: '20s' }),
    'limits.with of "taken"': ({ limits }) => limits.with('taken', { max: 1, wait: '20s' }, work),
    'limits.consume of "taken"': ({ limits }) => limits.consume('taken', { rate: '1/min', wait: '2m' }),
    'once.run of "taken"': ({ once }) => once.run('taken', { wait: '20s' }, work),
    'jobs.result of "job 1"': ({ jobs }) => jobs.result(1),
  }
  test.each(Object.entries(waits))(
    '%s rejects with a ClosedError that names the call and whose stack contains it',
    async (call, wait) => {
      const url = await databaseUrl()
      const [holder, holdfast] = [await open({ url }), await open({ url })]
      await holder.locks.acquire('taken')
      await holder.limits.acquire('taken', { max: 1 })
      await holder.limits.consume('taken', { rate: '1/min' })
      await holder.jobs.enqueue(job, 1)
      const [started, ending] = [gate(), gate()]
      const running = holder.once.run('taken', async () => {
        started.open()
        await ending.opened
      })
      await started.opened
      const failing = caught(ClosedError, wait(holdfast))
      await within(10_000, 'close', holdfast.close())
      ending.open()
      const error = await failing
      expect(error.message).toBe(`This instance was closed during ${call}`)
      expect(error.hint).toBe('Await the call before you call close().')
      expect(error.stack).toMatch(/^ClosedError: This instance was closed during [\s\S]*closed\.test\.ts/)
      expect(error.stack).not.toContain('Holdfast.close')
      await running
    },
  )
})
