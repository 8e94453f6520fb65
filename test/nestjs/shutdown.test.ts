// Tests the end of NestJS applications: app.close(), SIGTERM and SIGKILL.
import { Injectable, Module, type OnApplicationShutdown } from '@nestjs/common'
import pg from 'pg'
import { expect, test } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { HoldfastModule, JobHandler } from '../../src/nestjs/index.js'
import { Child } from '../fault/children.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { start, startWith } from './fixture.js'

const wait = defineJob<null, string>('wait')

/** A job that ends when the test calls `finish`. */
function gatedHandlers() {
  let finish = () => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  let reason: unknown

  @Injectable()
  class Handlers {
    @JobHandler(wait)
    async wait(_: null, { signal }: { signal: AbortSignal }) {
      const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      await Promise.race([finished, stopped])
      reason = signal.reason
      return 'whole'
    }
  }
  return { Handlers, finish, stopReason: () => reason }
}

const drainingInstances = (url: string) => sql(url, "select from holdfast.instance where state = 'draining'")
const isRunning = async (holdfast: Holdfast, id: number) => (await holdfast.jobs.find(id))?.state === 'running'

test('app.close() waits for the running job, closes the instance, and then ends the pool of an imported module', async () => {
  const url = await databaseUrl()
  const outside = await open({ url })
  const instancesAtPoolEnd: number[] = []

  @Module({
    providers: [{ provide: pg.Pool, useFactory: () => new pg.Pool({ connectionString: url }) }],
    exports: [pg.Pool],
  })
  class DatabaseModule implements OnApplicationShutdown {
    constructor(private readonly pool: pg.Pool) {}
    async onApplicationShutdown() {
      instancesAtPoolEnd.push((await sql(url, 'select from holdfast.instance')).length)
      await this.pool.end()
    }
  }

  const { Handlers, finish } = gatedHandlers()
  const app = await start({
    imports: [
      HoldfastModule.forRootAsync({
        imports: [DatabaseModule],
        inject: [pg.Pool],
        useFactory: (pool: pg.Pool) => ({ pool, work: true, log: false }),
      }),
    ],
    providers: [Handlers],
  })
  const job = await outside.jobs.enqueue(wait)
  await until('the job runs', () => isRunning(outside, job.id))
  let isClosed = false
  const closing = app.close().then(() => {
    isClosed = true
  })
  await until('the instance drains', async () => (await drainingInstances(url)).length === 1)
  // A request of the application can still enqueue a job.
  const late = await app.get(Holdfast).jobs.enqueue(wait)
  expect(isClosed).toBe(false)
  finish()
  await closing
  expect(await outside.jobs.result(job)).toBe('whole')
  expect(await outside.jobs.find(late.id)).toMatchObject({ state: 'ready' })
  // Only the instance of the test was open when the pool ended.
  expect(instancesAtPoolEnd).toEqual([1])
})

test('app.close() aborts the signal of a job that runs longer than `drainWithin`', async () => {
  const url = await databaseUrl()
  const outside = await open({ url })
  const { Handlers, stopReason } = gatedHandlers()
  const app = await startWith({ url, work: true, drainWithin: '50ms' }, { providers: [Handlers] })
  const job = await outside.jobs.enqueue(wait)
  await until('the job runs', () => isRunning(outside, job.id))
  await app.close()
  expect(stopReason()).toMatchObject({ code: 'DRAINING' })
})

interface Message {
  readonly name: string
  readonly open?: true
  readonly started?: number
  readonly attempt?: number
}

function startMembers(url: string, ...names: string[]): Promise<Child<Message>[]> {
  return Promise.all(
    names.map(async (name) => {
      const child = new Child<Message>(new URL('./member.ts', import.meta.url), { url, name })
      await child.waitFor('the application has started', (message) => message.open === true, 60_000)
      return child
    }),
  )
}

test('another application takes over the job of a killed one', { timeout: 120_000 }, async () => {
  const url = await databaseUrl()
  const outside = await open({ url })
  const members = await startMembers(url, 'app-1', 'app-2')
  const job = await outside.jobs.enqueue(wait)
  const runner = await until('the job runs', () =>
    members.find(({ messages }) => messages.some(({ started }) => started === job.id)),
  )
  runner.kill()
  const other = members.find((member) => member !== runner)!
  const { name, attempt } = await other.waitFor('the job has started again', ({ started }) => started === job.id)
  expect(attempt).toBe(2)
  other.send('finish')
  expect(await outside.jobs.result(job)).toBe(name)
  expect(await outside.jobs.find(job.id)).toMatchObject({ state: 'done', crashes: 1, failed: 0 })
})

test('an application with shutdown hooks drains after SIGTERM', { timeout: 120_000 }, async () => {
  const url = await databaseUrl()
  const outside = await open({ url })
  const [member] = await startMembers(url, 'app-1')
  const job = await outside.jobs.enqueue(wait)
  await member!.waitFor('the job has started', ({ started }) => started === job.id)
  member!.process.kill('SIGTERM')
  await until('the instance drains', async () => (await drainingInstances(url)).length === 1)
  member!.send('finish')
  // NestJS sends the signal to its own process again when all hooks have finished.
  expect(await member!.ended()).toBe('SIGTERM')
  expect(await outside.jobs.find(job.id)).toMatchObject({ state: 'done', result: 'app-1', crashes: 0, failures: [] })
  expect(await sql(url, 'select id from holdfast.instance')).toEqual([{ id: outside.id }])
})
