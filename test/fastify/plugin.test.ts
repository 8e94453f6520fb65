// Tests the plugin in real Fastify applications.
import Fastify, { type FastifyInstance } from 'fastify'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { type HoldfastPluginOptions, holdfastPlugin } from '../../src/fastify/index.js'
import { defineJob, UsageError } from '../../src/index.js'
import { Child } from '../fault/children.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const invoice = defineJob<{ order: number }, string>('invoice')

/** Creates an application with the plugin. Closed when the test has finished. */
async function start(options: HoldfastPluginOptions): Promise<FastifyInstance> {
  const app = Fastify()
  onTestFinished(() => app.close())
  await app.register(holdfastPlugin, { log: false, ...options })
  return app
}

const drainingInstances = (url: string) => sql(url, "select from holdfast.instance where state = 'draining'")

test('a request enqueues a job in its transaction', async () => {
  const url = await databaseUrl()
  await sql(url, 'create table customer_order (id serial, total int not null)')
  const pool = new pg.Pool({ connectionString: url })
  const app = await start({ pool, namespace: 'shop' })
  app.addHook('onClose', () => pool.end())
  app.post<{ Body: { total: number | null } }>('/orders', async ({ body }) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      const { id } = await app.holdfast.jobs.enqueue(invoice, { order: 7 }, { tx: client })
      await client.query('insert into customer_order (total) values ($1)', [body.total])
      await client.query('commit')
      return { job: id }
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  })
  const order = (total: number | null) => app.inject({ method: 'POST', url: '/orders', payload: { total } })
  expect((await order(null)).statusCode).toBe(500)
  expect(await sql(url, 'select from holdfast.job_live')).toEqual([])
  const { job } = (await order(7)).json<{ job: number }>()
  expect(await app.holdfast.jobs.find(job)).toMatchObject({ kind: 'invoice', state: 'ready' })
  expect(app.holdfast.namespace).toBe('shop')
})

test('the dashboard and the health checks have routes', async () => {
  const url = await databaseUrl()
  const app = await start({
    url,
    health: '/health',
    dashboard: { prefix: '/admin/holdfast', auth: ({ headers }) => ({ name: headers.get('x-user') ?? 'guest' }) },
  })
  const page = await app.inject('/admin/holdfast/')
  expect([page.statusCode, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  expect(page.body).toContain('<title>Holdfast</title>')
  const me = await app.inject({ url: '/admin/holdfast/api/me', headers: { 'x-user': 'ada' } })
  expect(me.json()).toMatchObject({ visitor: 'ada', error: null })
  const ready = await app.inject('/health/ready')
  expect([ready.statusCode, ready.json()]).toMatchObject([200, { status: 'up' }])
  expect((await app.inject('/health/live')).json()).toEqual({ status: 'alive' })
})

test('without options, the plugin adds no routes', async () => {
  const app = await start({ url: await databaseUrl() })
  await app.ready()
  expect(app.printRoutes().trim()).toBe('(empty tree)')
})

test('app.close() waits for the running job, closes the instance, and then ends a pool that was there before', async () => {
  const url = await databaseUrl()
  const outside = await open({ url })
  const instancesAtPoolEnd: number[] = []
  const pool = new pg.Pool({ connectionString: url })
  const app = Fastify()
  onTestFinished(() => app.close())
  app.addHook('onClose', async () => {
    instancesAtPoolEnd.push((await sql(url, 'select from holdfast.instance')).length)
    await pool.end()
  })
  await app.register(holdfastPlugin, { pool, log: false, dashboard: { prefix: '/admin/holdfast' } })
  let finish = () => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const wait = defineJob('wait', { run: () => finished.then(() => 'whole') })
  app.holdfast.jobs.work([wait])
  app.get('/slow', () => finished.then(() => app.holdfast.locks.with('slow', () => ({ done: true }))))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })

  const job = await outside.jobs.enqueue(wait)
  await until('the job runs', async () => (await outside.jobs.find(job.id))?.state === 'running')
  const pending = fetch(`${address}/slow`)
  const page = await fetch(`${address}/admin/holdfast/api/live?view=audit`)
  expect(page.status).toBe(200)
  await until('both requests have arrived', async () => {
    const connections = await new Promise((resolve) => app.server.getConnections((_, count) => resolve(count)))
    return connections === 2
  })
  let isClosed = false
  const closing = app.close().then(() => {
    isClosed = true
  })
  await until('the instance drains', async () => (await drainingInstances(url)).length === 1)
  expect(isClosed).toBe(false)
  finish()
  await closing
  expect(await outside.jobs.result(job)).toBe('whole')
  expect((await pending).status).toBe(200)
  // Only the instance of the test was open when the pool ended.
  expect(instancesAtPoolEnd).toEqual([1])
})

test('app.close() aborts the signal of a job that runs longer than `drainWithin`', async () => {
  const url = await databaseUrl()
  const app = await start({ url, drainWithin: '50ms' })
  let reason: unknown
  const wait = defineJob('wait', {
    run: async (_: null, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      reason = signal.reason
    },
  })
  app.holdfast.jobs.work([wait])
  const { id } = await app.holdfast.jobs.enqueue(wait)
  await until('the job runs', async () => (await app.holdfast.jobs.find(id))?.state === 'running')
  await app.close()
  expect(reason).toMatchObject({ code: 'DRAINING' })
})

interface Message {
  readonly name: string
  readonly open?: true
  readonly started?: number
  readonly attempt?: number
}

test('another server takes over the job of a killed one, and drains after SIGTERM', { timeout: 120_000 }, async () => {
  const url = await databaseUrl()
  const outside = await open({ url })
  const members = await Promise.all(
    ['web-1', 'web-2'].map(async (name) => {
      const child = new Child<Message>(new URL('./member.ts', import.meta.url), { url, name })
      await child.waitFor('the server has started', (message) => message.open === true, 60_000)
      return child
    }),
  )
  const wait = defineJob<null, string>('wait')
  const job = await outside.jobs.enqueue(wait)
  const runner = await until('the job runs', () =>
    members.find(({ messages }) => messages.some(({ started }) => started === job.id)),
  )
  runner.kill()
  const other = members.find((member) => member !== runner)!
  const { name, attempt } = await other.waitFor('the job has started again', ({ started }) => started === job.id)
  expect(attempt).toBe(2)
  other.process.kill('SIGTERM')
  await until('the instance drains', async () => (await drainingInstances(url)).length === 1)
  other.send('finish')
  expect(await other.ended()).toBe(0)
  expect(await outside.jobs.find(job.id)).toMatchObject({ state: 'done', result: name, crashes: 1, failed: 0 })
  expect(await sql(url, 'select from holdfast.instance where name = $1', [name])).toEqual([])
})

test('invalid registrations throw errors that say what to do, and leave no open instance', async () => {
  const url = await databaseUrl()
  const refused: [options: object, message: string][] = [
    [{ url, drainWithin: 'soon' }, 'Expected drainWithin to be a duration'],
    [{ url, health: 'health' }, 'Expected health to be a path that starts with a slash'],
    [{ url, dashboard: true }, 'Expected dashboard to be an object whose prefix is the path of the dashboard'],
    [{ url, dashboard: { prefix: 'admin' } }, 'Expected prefix to be a path that starts with a slash'],
    [{ url, dashboard: { prefix: '/admin', readonly: true } }, 'dashboard has no option "readonly": did you mean'],
    [{ sql: () => {}, dashboard: { prefix: '/admin' } }, 'Expected the dashboard to have a url or a pool'],
    [{ url, prefix: '/admin' }, 'has no option "prefix"'],
    [{}, 'Expected exactly one of url, pool and sql'],
  ]
  for (const [options, message] of refused) {
    const error = await start(options as HoldfastPluginOptions).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UsageError)
    expect((error as UsageError).message).toContain(message)
    expect(await sql(url, 'select from holdfast.instance')).toEqual([])
  }
})

test('a second registration throws, and the first instance is closed with the application', async () => {
  const url = await databaseUrl()
  const app = await start({ url })
  await expect(app.register(holdfastPlugin, { url, log: false }).ready()).rejects.toMatchObject({
    code: 'USAGE',
    hint: expect.stringContaining('Register the plugin once'),
  })
  await app.close()
  expect(await sql(url, 'select from holdfast.instance')).toEqual([])
})

test('app.ready() rejects with the error of Holdfast if the database is unreachable', async () => {
  const address = new URL(await databaseUrl())
  address.port = '1'
  await expect(start({ url: address.href })).rejects.toMatchObject({ code: 'DATABASE_UNREACHABLE' })
})

test('app.close() closes an instance that opened after the plugin timed out', async () => {
  const url = await databaseUrl()
  const app = Fastify({ pluginTimeout: 1 })
  await expect(app.register(holdfastPlugin, { url, log: false }).ready()).rejects.toMatchObject({
    code: 'FST_ERR_PLUGIN_TIMEOUT',
  })
  await app.close()
  expect(await sql(url, 'select from holdfast.instance')).toEqual([])
})
