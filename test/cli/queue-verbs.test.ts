import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { drain } from '../../src/testing/index.js'
import { work } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { eventually, run, startOnTerminal } from './program.js'
import { fits, schemaOf } from './schemas.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

let holdfast: Holdfast
let env: NodeJS.ProcessEnv
beforeEach(async () => {
  const namespace = `queues ${randomBytes(4).toString('hex')}`
  env = { DATABASE_URL: database.url, HOLDFAST_NAMESPACE: namespace }
  holdfast = await open({ url: database.url, namespace })
})

async function json(args: string[]): Promise<unknown> {
  return fits(schemaOf(args), JSON.parse((await run([...args, '--json'], env)).stdout))
}

const mail = defineJob('mail', { queue: 'post', run: ({ to }: { to: string }) => ({ sent: to }) })
const fail = defineJob<unknown>('fail', {
  queue: 'post',
  retry: { attempts: 1 },
  run: () => {
    throw new Error('broken')
  },
})
const hold = defineJob('hold', {
  queue: 'post',
  run: (_: unknown, { signal }) =>
    new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
})

describe('queue ls', () => {
  test('queue ls counts the jobs of each state, and the workers', async () => {
    await holdfast.jobs.enqueueMany(fail, [1, 2])
    await drain(holdfast, [fail])
    const worker = work(holdfast, [hold])
    await holdfast.jobs.enqueue(hold, null)
    await eventually(() => worker.running).toBe(1)
    await holdfast.jobs.enqueueMany(mail, [{ to: 'ada' }, { to: 'bob' }, { to: 'eve' }])
    await holdfast.jobs.enqueue(mail, { to: 'later' }, { delay: '1h' })
    await holdfast.jobs.enqueue(defineJob('other', { queue: 'other', run: () => {} }), null)
    expect(await json(['queue', 'ls'])).toMatchObject([
      { name: 'other', namespace: holdfast.namespace, ready: 1, running: 0, waiting: 0, buried: 0, workers: 0 },
      { name: 'post', ready: 3, running: 1, waiting: 1, buried: 2, workers: 1, pausedAt: null },
    ])
    const { stdout } = await run(['queue', 'ls'], env)
    expect(stdout.split('\n')[1]).toBe(`post\t${holdfast.namespace}\t3\t1\t1\t2\t1\t`)
  })

  test('queue ls counts at most 10,000 jobs', async () => {
    await holdfast.jobs.enqueueMany(mail, Array(10_000).fill({ to: 'ada' }))
    expect((await run(['queue', 'ls'], env)).stdout).toContain('\t10000\t0\t0\t0\t0\t')
    await holdfast.jobs.enqueue(mail, { to: 'one more' })
    expect((await run(['queue', 'ls'], env)).stdout).toContain('\t10000+\t0\t0\t0\t0\t')
  })

  test('queue ls does not count dead workers', async () => {
    work(holdfast, [mail])
    await eventually(() => json(['queue', 'ls'])).toMatchObject([{ workers: 1 }])
    // The row of a dead worker, before another process has deleted it.
    await sql(
      database.url,
      `insert into holdfast.worker (session, number, instance, queues)
       select 2147483647, 0, 'dead', array[key] from holdfast.queue where namespace = $1`,
      [holdfast.namespace],
    )
    expect(await json(['queue', 'ls'])).toMatchObject([{ workers: 1 }])
  })

  test('queue ls reports on stderr that no queue has been used', async () => {
    expect(await run(['queue', 'ls'], env)).toEqual({ status: 0, stdout: '', stderr: 'No queue has been used yet.\n' })
  })

  test.runIf(process.platform === 'linux')('queue ls prints a table on a terminal', async () => {
    await holdfast.jobs.enqueue(mail, { to: 'ada' })
    await holdfast.jobs.pause('post')
    const { stdout } = await startOnTerminal(['queue', 'ls'], { ...env, NO_COLOR: '1' }).ended
    expect(stdout).toMatch(/^QUEUE +READY +RUNNING +WAITING +FAILED +WORKERS +PAUSED\r\n/)
    expect(stdout).toMatch(/^post +1 +0 +0 +0 +0 +for [\d.]+m?s\r$/m)
  })
})

describe('queue pause and queue resume', () => {
  test('queue pause stops claims, and queue resume allows them again', async () => {
    await holdfast.jobs.enqueue(mail, { to: 'ada' })
    expect(await run(['queue', 'pause', 'post'], env)).toEqual({
      status: 0,
      stdout: '',
      stderr: 'Paused "post". Workers will claim none of its jobs until the queue is resumed.\n',
    })
    expect((await run(['queue', 'pause', 'post'], env)).stderr).toBe('"post" was already paused.\n')
    expect(await json(['queue', 'ls'])).toMatchObject([{ name: 'post', pausedAt: expect.any(String) }])
    expect(await drain(holdfast, [mail])).toEqual([])
    expect(await json(['queue', 'resume', 'post'])).toEqual({ resumed: 'post' })
    expect(await drain(holdfast, [mail])).toMatchObject([{ state: 'done' }])
    expect(await run(['queue', 'resume', 'post'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: '"post" is not paused.\n',
    })
  })

  test('queue pause and resume refuse an unused queue and suggest a similar name', async () => {
    await holdfast.jobs.enqueue(mail, { to: 'ada' })
    const there = `There is no queue "psot" in the namespace "${holdfast.namespace}": it has never been used.`
    const stderr = `${there} Did you mean "post"?\n`
    for (const verb of ['pause', 'resume']) {
      expect(await run(['queue', verb, 'psot'], env)).toEqual({ status: 3, stdout: '', stderr })
    }
    expect(await json(['queue', 'ls'])).toMatchObject([{ name: 'post', pausedAt: null }])
  })
})
