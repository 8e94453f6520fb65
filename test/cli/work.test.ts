import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { enqueued, jobEnded } from '../../src/testing/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { open } from '../setup/instances.js'
import { eventually, type Running, run, start, startOnTerminal, startSilentServer } from './program.js'

let database: FreshDatabase
let directory: string
beforeAll(async () => {
  database = await freshDatabase()
  // In this directory, `holdfast` is the built package.
  directory = mkdtempSync(join(tmpdir(), 'holdfast-work-'))
  const home = fileURLToPath(new URL('../..', import.meta.url))
  writeFileSync(join(directory, 'package.json'), '{ "type": "module" }')
  symlinkSync(home, join(directory, 'holdfast-home'))
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(directory, name), text.replaceAll("'holdfast'", "'./holdfast-home/dist/index.js'"))
  }
})
afterAll(async () => {
  rmSync(directory, { recursive: true })
  await database.drop()
})

let holdfast: Holdfast
let env: NodeJS.ProcessEnv
beforeEach(async () => {
  const namespace = `work ${randomBytes(4).toString('hex')}`
  env = { DATABASE_URL: database.url, HOLDFAST_NAMESPACE: namespace, HOLDFAST_EXPIRY: '2s' }
  holdfast = await open({ url: database.url, namespace })
})

const files = {
  'jobs.js': `
    import { existsSync } from 'node:fs'
    import { setTimeout as sleep } from 'node:timers/promises'
    import { defineJob } from 'holdfast'
    export const double = defineJob('double', { queue: 'numbers', run: (n) => n * 2 })
    export const alike = double
    export const listed = [defineJob('fail', { retry: { attempts: 2, backoff: 1 }, run: (_, { attempt }) => {
      throw new TypeError('broken ' + attempt)
    } })]
    export default defineJob('slow', { run: async ({ until }, job) => {
      console.error('began ' + job.id + ' attempt ' + job.attempt + ' in ' + process.pid)
      while (!existsSync(until)) await sleep(20, undefined, { signal: job.signal })
      return job.attempt
    } })
    export const others = { neither: 1 }
  `,
  'jobs.cjs': `
    const make = async () => {
      const { defineJob } = await import('holdfast')
      return { triple: defineJob('triple', { run: (n) => n * 3 }) }
    }
    module.exports = { kind: 'nothing', make, triple: { kind: 'triple', queue: 'default', attempts: 1, backoffMs: 0,
      maxBackoffMs: 0, maxCrashes: 3, run: (n) => n * 3 } }
  `,
  'schedules.js': `
    import { defineJob, defineSchedule } from 'holdfast'
    const count = defineJob('count', { run: () => 1 })
    export const fails = defineSchedule('fails', { every: '365d' }, () => { throw new TypeError('broken') })
    export default [
      defineSchedule('counts', { every: '365d', job: count, input: (tick) => tick.getTime() }),
      defineSchedule('long', { every: '365d' }, ({ signal }) => {
        console.error('began in ' + process.pid)
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }),
    ]
  `,
  'throws.js': "throw new RangeError('no configuration')",
  'prints.js': `
    import { setTimeout as sleep } from 'node:timers/promises'
    import { defineJob } from 'holdfast'
    export const prints = defineJob('prints', { run: async () => {
      for (let line = 0; line < 10; line++) {
        console.log('line ' + line)
        await sleep(10)
      }
    } })
  `,
  'broken.js': 'export const x = (',
  'nothing.js': 'export const x = 1; export default { kind: "looks like one" }',
  'twice.js': "import { defineJob } from 'holdfast'; export const other = defineJob('double', { run: () => 1 })",
  'typed.ts': `
    import { defineJob } from 'holdfast'
    export const typed = defineJob('typed', { run: (n: number): number => n + 1 })
  `,
}

const double = defineJob<unknown>('double', { queue: 'numbers', run: () => {} })
const fail = defineJob('fail', { run: () => {} })
const slow = defineJob<unknown>('slow', { run: () => {} })
const triple = defineJob<unknown>('triple', { run: () => {} })

const prints = defineJob('prints', { run: () => {} })

const never = '/nowhere/never'

const file = (name: keyof typeof files) => join(directory, name)

/** Waits until stderr matches the pattern. */
async function untilStderr(running: Running, pattern: RegExp): Promise<void> {
  await eventually(() => running.stderr).toMatch(pattern)
}

describe('the jobs of holdfast work', () => {
  test('work runs every definition that the files export: alone, in lists, by default and by module.exports', async () => {
    const running = start(['work', file('jobs.js'), file('jobs.cjs'), '--concurrency', '7'], env)
    await untilStderr(
      running,
      /^holdfast: working on the queues "numbers", "default", up to 7 jobs at a time: double, slow, fail, triple \(instance \S+\/\d+\)\n/,
    )
    const { id } = await holdfast.jobs.enqueue(double, 21)
    expect(await jobEnded(holdfast, id)).toMatchObject({ state: 'done', result: 42 })
    const other = await holdfast.jobs.enqueue(triple, 7)
    expect(await jobEnded(holdfast, other.id)).toMatchObject({ state: 'done', result: 21 })
    running.process.kill('SIGTERM')
    const { status, stdout, stderr } = await running.ended
    expect(stderr).toMatch(
      /^holdfast: received SIGTERM: claiming no more jobs; nothing is running\nholdfast: stopped\n$/m,
    )
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
  })

  test('work claims only from the queues given by --queue', async () => {
    const words = ['work', '--queue', 'numbers', '--queue', 'more', file('jobs.js')]
    const running = start(words, env)
    await untilStderr(running, /^holdfast: working on the queues "numbers", "more", up to 10 jobs at a time: /)
    const passedOver = await holdfast.jobs.enqueue(slow, { until: directory })
    const { id } = await holdfast.jobs.enqueue(double, 1)
    expect(await jobEnded(holdfast, id)).toMatchObject({ state: 'done' })
    expect(await holdfast.jobs.find(passedOver.id)).toMatchObject({ state: 'ready' })
  })

  test('work reports each failed attempt and the next state of the job', async () => {
    const running = start(['work', file('jobs.js')], env)
    const { id } = await holdfast.jobs.enqueue(fail, null)
    await jobEnded(holdfast, id)
    await untilStderr(
      running,
      new RegExp(
        `holdfast: job fail ${id} failed \\(attempt 1 of 2, retry in \\S+\\): TypeError: broken 1\n` +
          `holdfast: job fail ${id} was buried \\(attempt 2 of 2\\): TypeError: broken 2\n$`,
      ),
    )
    expect(running.stdout).toBe('')
  })
})

test('work serves metrics and health checks on --metrics-port, and refuses a taken port', async () => {
  const running = start(['work', file('jobs.js'), '--metrics-port', '0'], env)
  await untilStderr(running, /^holdfast: serving metrics and health checks on port \d+\n.*working on the queues/s)
  const [, port] = /on port (\d+)/.exec(running.stderr)!
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    return { status: response.status, text: await response.text() }
  }
  const { id } = await holdfast.jobs.enqueue(double, 21)
  await jobEnded(holdfast, id)
  await eventually(async () => (await get('/metrics')).text).toMatch(
    /^messaging_process_duration_seconds_count\{.*holdfast_job_kind="double",holdfast_outcome="done"\} 1$/m,
  )
  expect(await get('/health/live')).toMatchObject({ status: 200, text: expect.stringContaining('alive') })
  expect(await get('/health/ready')).toMatchObject({ status: 200, text: expect.stringContaining('"status":"up"') })
  expect(await get('/')).toEqual({ status: 404, text: 'Expected /metrics, /health/live, /health/ready\n' })
  const other = await run(['work', file('jobs.js'), '--metrics-port', port!], env)
  expect(other.stderr).toContain(
    `holdfast: Port ${port} is already in use\nChoose another port with --metrics-port, or use 0 for any free port.\n`,
  )
  expect(other.status).toBe(1)
  running.process.kill('SIGTERM')
  expect(await running.ended).toMatchObject({ status: 0 })
})

test('work runs schedules that enqueue jobs or fail, and returns a run to the queue after the drain has timed out', async () => {
  const running = start(['work', file('schedules.js'), '--drain', '200ms'], env)
  await untilStderr(running, /^holdfast: running the schedules counts, long, fails \(instance \S+\)\n$/)
  const { schedules } = holdfast
  const isMember = async (name: string) => ((await schedules.find(name))?.members.length ?? 0) > 0
  for (const name of ['fails', 'counts', 'long']) await eventually(() => isMember(name)).toBe(true)
  const tick = await schedules.run('counts')
  await eventually(() => enqueued(holdfast)).toMatchObject([{ input: tick!.getTime() }])
  await schedules.run('fails')
  await untilStderr(running, /\nholdfast: schedule fails failed \(tick \S+Z, attempt 1\): TypeError: broken\n/)
  await schedules.run('long')
  await untilStderr(running, /began in/)
  running.process.kill('SIGTERM')
  const { status, stderr } = await running.ended
  expect(stderr).toContain(
    '\nholdfast: received SIGTERM: claiming no more ticks; 1 run may take up to 200ms to finish\n',
  )
  expect(stderr).toContain(
    '\nholdfast: the drain timed out; asking 1 run to stop and returning the work to the queue\nholdfast: stopped\n',
  )
  expect(status).toBe(0)
  expect(await schedules.runs('long')).toMatchObject([{ state: 'waiting', attempt: 1 }])
})

describe('what holdfast work refuses', () => {
  test.each([
    [
      ['throws.js'],
      1,
      /^holdfast: \S*throws\.js cannot be imported: RangeError: no configuration\n +at file:.*throws\.js/,
    ],
    [['broken.js'], 1, /^holdfast: \S*broken\.js cannot be imported: SyntaxError: /],
    [['jobs.js', 'throws.js'], 1, /throws\.js cannot be imported/],
    [
      ['nothing.js'],
      2,
      /^holdfast: Expected files that export definitions made by defineJob or defineSchedule, got none\nFor example: export/,
    ],
    [['missing.js'], 2, /^holdfast: There is no file "\S*missing\.js" in \//],
    [
      ['jobs.js', 'twice.js'],
      2,
      /^holdfast: Two definitions are named "double": one in \S*jobs\.js, one in \S*twice\.js\n/,
    ],
    [[], 2, /^holdfast: missing required argument 'file'\n/],
  ])('work refuses the files %j', async (names, code, complaint) => {
    const { status, stdout, stderr } = await run(['work', ...names.map((name) => join(directory, name))], env)
    expect(stderr).toMatch(complaint)
    expect({ status, stdout }).toEqual({ status: code, stdout: '' })
  })

  test.each([
    [
      ['--drain', 'soon'],
      'Expected --drain to be a duration of at least 0ms and at most 24d, such as 30s or 5m, got "soon"',
    ],
    [['--metrics-port', 'any'], 'Expected --metrics-port to be a whole number between 0 and 65535, got "any"'],
    [['--concurrency', '0'], 'Expected --concurrency to be a whole number between 1 and 10000, got "0"'],
  ])('work refuses the options %j', async (options, complaint) => {
    const { status, stderr } = await run(['work', file('jobs.js'), ...options], env)
    expect(stderr).toBe(`holdfast: ${complaint}\n`)
    expect(status).toBe(2)
  })

  test('work exits with 4 if the database cannot be reached', async () => {
    const { status } = await run(['work', file('jobs.js'), '--url', 'postgres://app:s3cret@127.0.0.1:1/app'], env)
    expect(status).toBe(4)
  })

  const readsTypeScript = Boolean((process.features as { typescript?: unknown }).typescript)
  test.runIf(readsTypeScript)('work imports TypeScript if Node.js supports it', async () => {
    const running = start(['work', file('typed.ts')], env)
    await untilStderr(running, /at a time: typed /)
  })
  test.skipIf(readsTypeScript)('work explains how to use TypeScript if Node.js does not support it', async () => {
    const { status, stderr } = await run(['work', file('typed.ts')], env)
    expect(stderr).toMatch(
      /typed\.ts cannot be imported: Node\.js v\d+\S* does not support TypeScript files\nUse Node\.js 22\.18 /,
    )
    expect(status).toBe(1)
  })
})

describe('the end of holdfast work', () => {
  test('SIGTERM lets a running job finish, and work claims no other job', async () => {
    const running = start(['work', file('jobs.js')], env)
    const until = join(directory, 'first')
    const { id } = await holdfast.jobs.enqueue(slow, { until })
    await untilStderr(running, new RegExp(`began ${id} `))
    running.process.kill('SIGTERM')
    await untilStderr(running, /received SIGTERM: claiming no more jobs; 1 job may take up to 20s to finish/)
    const late = await holdfast.jobs.enqueue(slow, { until: directory })
    writeFileSync(until, '')
    const { status, stderr } = await running.ended
    expect(stderr).toMatch(/holdfast: stopped\n$/)
    expect(status).toBe(0)
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', result: 1, crashes: 0 })
    expect(await holdfast.jobs.find(late.id)).toMatchObject({ state: 'ready' })
  })

  test('a job that takes longer than --drain is stopped and returned to the queue', async () => {
    const running = start(['work', file('jobs.js'), '--drain', '200ms'], env)
    const { id } = await holdfast.jobs.enqueue(slow, { until: never })
    await untilStderr(running, new RegExp(`began ${id} `))
    running.process.kill('SIGINT')
    const { status, stderr } = await running.ended
    expect(stderr).toContain('received SIGINT: claiming no more jobs; 1 job may take up to 200ms to finish\n')
    expect(stderr).toContain('the drain timed out; asking 1 job to stop and returning the work to the queue\n')
    expect(status).toBe(0)
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', failed: 0, crashes: 0 })
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('a second %s ends work immediately', async (signal, code) => {
    const running = start(['work', file('jobs.js')], env)
    const { id } = await holdfast.jobs.enqueue(slow, { until: never })
    await untilStderr(running, new RegExp(`began ${id} `))
    running.process.kill(signal)
    await untilStderr(running, /1 job may take up to 20s to finish/)
    running.process.kill(signal)
    const { status, stderr } = await running.ended
    expect(stderr).toContain(`received ${signal} again, exiting now`)
    expect(status).toBe(code)
  })

  test('a job of a process that kill -9 has ended runs in another process', async () => {
    const first = start(['work', file('jobs.js')], env)
    const until = join(directory, 'second')
    const { id } = await holdfast.jobs.enqueue(slow, { until })
    await untilStderr(first, new RegExp(`began ${id} attempt 1`))
    const second = start(['work', file('jobs.js')], env)
    await untilStderr(second, /working on the queues/)
    first.process.kill('SIGKILL')
    await untilStderr(second, new RegExp(`began ${id} attempt 2 in ${second.pid}`))
    writeFileSync(until, '')
    expect(await jobEnded(holdfast, id)).toMatchObject({ state: 'done', result: 2, crashes: 1 })
  })

  test('work exits immediately after a signal while the server does not respond', async () => {
    const { url, connected } = await startSilentServer()
    const running = start(['work', file('jobs.js')], { DATABASE_URL: url })
    await connected
    const since = performance.now()
    running.process.kill('SIGTERM')
    expect(await running.ended).toMatchObject({
      status: 0,
      stderr: 'holdfast: received SIGTERM before the work started\n',
    })
    expect(performance.now() - since).toBeLessThan(5_000)
  })

  test('work continues and drains although the reader of its stdout has closed the pipe', async () => {
    const running = start(['work', file('prints.js')], env)
    await untilStderr(running, /working on the queues?/)
    running.process.stdout!.destroy()
    const { id } = await holdfast.jobs.enqueue(prints, null)
    expect(await jobEnded(holdfast, id)).toMatchObject({ state: 'done', crashes: 0 })
    running.process.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ status: 0, stderr: expect.stringContaining('holdfast: stopped') })
  })

  test.runIf(process.platform === 'linux')('Ctrl-C on a terminal stops work', async () => {
    const running = startOnTerminal(['work', file('jobs.js')], env)
    await running.says(/working on the queues/)
    running.type('\x03')
    expect(await running.ended).toMatchObject({ status: 0, stdout: expect.stringContaining('holdfast: stopped') })
  })
})
