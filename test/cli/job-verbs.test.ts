import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob, type Holdfast, JobCancelledError } from '../../src/index.js'
import { drain } from '../../src/testing/index.js'
import { gate, work } from '../jobs/fixture.js'
import { bossOf } from '../jobs/import-fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { eventually, run, start, startOnTerminal } from './program.js'
import { fits, fitsRow, schemaOf } from './schemas.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

let holdfast: Holdfast
let env: NodeJS.ProcessEnv
beforeEach(async () => {
  const namespace = `verbs ${randomBytes(4).toString('hex')}`
  env = { DATABASE_URL: database.url, HOLDFAST_NAMESPACE: namespace }
  holdfast = await open({ url: database.url, namespace })
})

async function json(args: string[]): Promise<unknown> {
  return fits(schemaOf(args), JSON.parse((await run([...args, '--json'], env)).stdout))
}

const mail = defineJob('mail', { queue: 'post', run: ({ to }: { to: string }) => ({ sent: to }) })
const fail = defineJob('fail', {
  retry: { attempts: 1 },
  run: (_: unknown, job) => {
    job.log('about to fail')
    job.progress(0.5)
    throw new TypeError('broken\tin\nlines')
  },
})
const hold = defineJob('hold', {
  run: (_: unknown, { signal }) =>
    new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
})

describe('job ls', () => {
  test('job ls lists running jobs, ready jobs in their order, waiting jobs and ended jobs', async () => {
    const ended = await holdfast.jobs.enqueue(mail, { to: 'done' })
    const buried = await holdfast.jobs.enqueue(fail, null)
    await drain(holdfast, [mail, fail])
    const worker = work(holdfast, [hold])
    const running = await holdfast.jobs.enqueue(hold, null)
    await eventually(() => worker.running).toBe(1)
    const later = await holdfast.jobs.enqueue(mail, { to: 'later' }, { delay: '2h' })
    const sooner = await holdfast.jobs.enqueue(mail, { to: 'sooner' }, { delay: '1h' })
    const ready = await holdfast.jobs.enqueue(mail, { to: 'ready' })
    const urgent = await holdfast.jobs.enqueue(mail, { to: 'urgent' }, { priority: 5 })
    const listed = [running, buried, urgent, ready, sooner, later, ended]
    expect(await json(['job', 'ls'])).toMatchObject([
      { id: running.id, state: 'running', instance: holdfast.id, claimedAt: expect.any(String) },
      { id: buried.id, state: 'buried', failed: 1, failure: 'broken\tin\nlines' },
      { id: urgent.id, state: 'ready', kind: 'mail', queue: 'post', priority: 5, paused: false },
      { id: ready.id, state: 'ready' },
      { id: sooner.id, state: 'waiting', runAt: expect.any(String) },
      { id: later.id, state: 'waiting' },
      { id: ended.id, state: 'done', endedAt: expect.any(String) },
    ])
    const ids = async (...args: string[]) =>
      ((await json(['job', 'ls', ...args])) as { id: number }[]).map(({ id }) =>
        listed.findIndex((job) => job.id === id),
      )
    expect(await ids('--state', 'ready')).toEqual([2, 3])
    expect(await ids('--state', 'running')).toEqual([0])
    expect(await ids('--state', 'waiting', '--limit', '1')).toEqual([4])
    expect(await ids('--state', 'scheduled')).toEqual([4, 5])
    expect(await ids('--queue', 'post')).toEqual([2, 3, 4, 5, 6])
    expect(await ids('--kind', 'fail')).toEqual([1])
    expect(await ids('--state', 'failed', '--since', '1h')).toEqual([1])
    expect(await ids('--state', 'buried')).toEqual([1])
    expect(await ids('--error', 'BROKEN')).toEqual([1])
    expect(await ids('--search', 'input.to:later')).toEqual([5])
    expect(await ids('--until', '1h')).toEqual([])
    expect(await ids('--kind', 'mail', '--state', 'done')).toEqual([6])
    expect(await ids('--queue', 'nowhere')).toEqual([])
    expect(await ids('--namespace', 'nobody')).toEqual([])
  })

  test('job ls prints JSON lines or tab-separated fields, and reports on stderr that more jobs exist', async () => {
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' })
    const { stdout: lines } = await run(['job', 'ls', '--jsonl'], env)
    expect(fitsRow('job-ls', JSON.parse(lines))).toMatchObject({ id, kind: 'mail' })
    await holdfast.jobs.enqueue(mail, { to: 'bob' })
    const { stdout, stderr } = await run(['job', 'ls', '--limit', '1'], env)
    expect(stdout.split('\t').slice(0, 5)).toEqual([String(id), 'mail', 'post', holdfast.namespace, 'ready'])
    expect(stderr).toBe(
      'Only the first 1 jobs are shown. Use --limit to show more, or `holdfast queue ls` to count jobs.\n',
    )
    const withHeader = await run(['job', 'ls', '--limit', '1', '--header'], env)
    const [titles, first, ...rest] = withHeader.stdout.split('\n')
    expect(titles!.split('\t').slice(0, 5)).toEqual(['ID', 'KIND', 'QUEUE', 'NAMESPACE', 'STATE'])
    expect([titles!.split('\t').length, first, rest]).toEqual([first!.split('\t').length, stdout.trimEnd(), ['']])
    expect(await run(['job', 'ls', '--state', 'done'], env)).toEqual({
      status: 0,
      stdout: '',
      stderr: 'No jobs found.\n',
    })
  })

  test.runIf(process.platform === 'linux')('job ls prints a table that fits the terminal', async () => {
    await holdfast.jobs.enqueue(fail, null)
    await drain(holdfast, [fail])
    await holdfast.jobs.enqueue(defineJob('a-rather-long-name/'.repeat(9), { run: () => {} }), null)
    await holdfast.jobs.pause('default')
    const { stdout } = await startOnTerminal(['job', 'ls'], { ...env, NO_COLOR: '1' }).ended
    const plain = stdout.replaceAll('\r', '')
    expect(plain).toMatch(/^ID +KIND +QUEUE +STATE +WHEN +FAILED +WHY\n/)
    expect(plain).toMatch(/failed +.*ago +1× +broken/)
    expect(plain).toMatch(/ready +for .* its queue is p/)
    for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  })

  test.each([
    [['--state', 'redy'], 'Expected --state to be "running" or "ready" or', 'Did you mean ready?'],
    [['--since', 'monday'], 'Expected since to be a duration or a time with a time zone, got "monday"'],
    [['--limit', '0'], 'Expected --limit to be a whole number between 1 and 10000, got "0"'],
    [['--stat', 'ready'], "unknown option '--stat'", 'Did you mean --state?'],
  ])('job ls with %j is a usage error', async (options, ...complaint) => {
    const { status, stdout, stderr } = await run(['job', 'ls', ...options], env)
    expect(stderr.startsWith(`holdfast: ${complaint[0]}`)).toBe(true)
    if (complaint[1]) expect(stderr.split('\n')[1]).toBe(complaint[1])
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })
})

describe('job stats and changes', () => {
  test('job stats counts jobs and failures of each kind and queue, and changes lists the failure', async () => {
    const failed = await holdfast.jobs.enqueue(fail, null)
    await holdfast.jobs.enqueue(mail, { to: 'done' })
    await drain(holdfast, [mail, fail])
    const [first, second, ...rest] = (await json(['job', 'stats'])) as object[]
    expect(first).toMatchObject({
      by: 'kind',
      name: 'fail',
      done: 0,
      failedAttempts: 1,
      failed: 1,
      failureShare: 1,
      took: null,
      lastError: { job: failed.id, name: 'TypeError', message: 'broken\tin\nlines' },
    })
    expect(second).toMatchObject({ name: 'mail', done: 1, failureShare: 0, perMinute: 0.0167, lastError: null })
    expect(rest).toEqual([])
    const kinds = async (...args: string[]) =>
      ((await json(['job', 'stats', ...args])) as { name: string }[]).map(({ name }) => name)
    expect(await kinds('--queue', 'post')).toEqual(['mail'])
    expect(await kinds('--kind', 'fail')).toEqual(['fail'])
    expect(await kinds('--by', 'queue')).toEqual(['default', 'post'])
    const { stdout } = await startOnTerminal(['job', 'stats', '--since', '2h'], { ...env, NO_COLOR: '1' }).ended
    expect(stdout.replaceAll('\r', '')).toMatch(/fail +0 +0 +1 +100% +1 .*TypeError/)

    const listed = (await json(['changes'])) as { kind: string; job: number | null }[]
    expect(listed.find(({ kind }) => kind === 'jobs-failed')).toMatchObject({ job: failed.id, count: 1 })
    const changes = await startOnTerminal(['changes'], { ...env, NO_COLOR: '1' }).ended
    expect(changes.stdout).toMatch(/ago +a job of kind fail failed: TypeError: broken/)
    expect((await run(['changes', '--since', '3d'], env)).stderr).toContain('at most 2d')
  })
})

describe('job show', () => {
  test('job show prints all details of a failed job', async () => {
    const { id } = await holdfast.jobs.enqueue(fail, { some: 'input' }, { priority: -1, meta: { tags: ['billing'] } })
    await drain(holdfast, [fail])
    expect(await json(['job', 'show', String(id)])).toMatchObject({
      id,
      state: 'buried',
      failures: [{ attempt: 1, message: 'broken\tin\nlines' }],
      log: [{ attempt: 1, number: 1, text: 'about to fail' }],
      meta: { tags: ['billing'] },
    })
    const { stdout, status } = await run(['job', 'show', String(id)], env)
    const facts = stdout.split('\n').map((line) => line.split('\t'))
    const fact = (field: string) =>
      facts
        .find(([name]) => name === field)
        ?.slice(1)
        .join('\t')
    expect(fact('state')).toBe('failed')
    expect(fact('priority')).toBe('-1')
    expect(fact('input')).toBe('{"some":"input"}')
    expect(fact('meta')).toBe('{"tags":["billing"]}')
    expect(fact('progress')).toBe('0.5')
    expect(fact('failed')).toBe('once')
    expect(fact('error')).toBe('TypeError: broken\\tin\\nlines')
    expect(fact('attempt 1')).toMatch(/^20.*Z by \S+ {2}TypeError: broken/)
    expect(fact('stack')).toMatch(/^at .*job-verbs\.test/)
    expect(fact('log')).toMatch(/^20.*Z {2}about to fail$/)
    expect(status).toBe(0)
  })

  test('job logs prints the lines with their data, and --follow prints new lines until the job has ended', async () => {
    const going = gate()
    const talk = defineJob('talk', {
      run: async (_: null, { log }) => {
        log('first', { part: 1 })
        await going.opened
        log('second')
      },
    })
    const { id } = await holdfast.jobs.enqueue(talk, null)
    work(holdfast, [talk])
    await eventually(async () => (await holdfast.jobs.find(id))!.log.length).toBe(1)
    expect(await json(['job', 'logs', String(id)])).toMatchObject([
      { attempt: 1, number: 1, text: 'first', data: { part: 1 } },
    ])
    const following = start(['job', 'logs', String(id), '--follow'], env)
    await new Promise((resolve) => following.process.stdout!.once('data', resolve))
    going.open()
    const { stdout, status } = await following.ended
    const lines = stdout.split('\n').slice(0, -1)
    expect(lines.map((line) => line.split('\t').slice(1))).toEqual([
      ['1', 'first', '{"part":1}'],
      ['1', 'second', ''],
    ])
    expect(status).toBe(0)
    expect((await run(['job', 'logs', String(id), '--follow', '--json'], env)).status).toBe(2)
    expect((await run(['job', 'logs', '999999999'], env)).status).toBe(3)
  })

  test('job show prints why a job waits, and the result of a job', async () => {
    const waiting = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1h' })
    const shown = await run(['job', 'show', String(waiting.id)], env)
    expect(shown.stdout).toMatch(/^state\twaiting: the job is waiting for its time, until 20.*Z$/m)
    expect(shown.stdout).toMatch(/^runs at\t20.*Z$/m)
    expect(shown.stdout).not.toMatch(/^meta\t/m)
    const done = await holdfast.jobs.enqueue(mail, { to: 'bob' })
    await drain(holdfast, [mail])
    expect((await run(['job', 'show', String(done.id)], env)).stdout).toContain('result\t{"sent":"bob"}\n')
    await holdfast.jobs.pause('post')
    const ready = await holdfast.jobs.enqueue(mail, { to: 'eve' })
    expect((await run(['job', 'show', String(ready.id)], env)).stdout).toMatch(
      /^state\tready: the job is waiting for its queue, which has been paused since 20.*Z$/m,
    )
  })

  test('job show lists the steps of a job and what it waits for', async () => {
    const stepped = defineJob('stepped', {
      run: async (_: null, job) => {
        await job.step('charge', () => 7)
        await job.step('\u001b[2J\u200f', () => 8)
        await job.event('approved', { within: '1d' })
      },
    })
    const { id } = await holdfast.jobs.enqueue(stepped, null)
    await drain(holdfast, [stepped])
    const { stdout } = await run(['job', 'show', String(id)], env)
    expect(stdout).toMatch(/^step charge\tstep, recorded .+ after .+ \(attempt 1\)$/m)
    expect(stdout).toMatch(/^step \\u001b\[2J\\u200f\tstep, recorded /m)
    expect(stdout).toMatch(/^step approved\twaits for the event "approved" until .+$/m)
    expect(stdout).toMatch(/^state\twaiting: the job is waiting for the event "approved", until .+Z$/m)
  })

  test('job send sends an event, and exits with 3 if the job has ended', async () => {
    const { id } = await holdfast.jobs.enqueue(
      defineJob('gated', { run: (_: null, job) => job.event('approved', { within: '1d' }) }),
      null,
    )
    const words = ['job', 'send', String(id), 'approved', '{"by": "ada"}', '--idempotency-key', 'request:7']
    const sent = await run([...words, '--json'], env)
    expect(fits('job-send', JSON.parse(sent.stdout))).toEqual({ sent: [id] })
    expect(sent).toMatchObject({ status: 0, stderr: `Sent the event "approved" to job ${id}.\n` })
    await run(words, env)
    expect(await sql(database.url, 'select event, key, data from holdfast.job_event where job = $1', [id])).toEqual([
      { event: 'approved', key: 'request:7', data: { by: 'ada' } },
    ])
    await holdfast.jobs.cancel(id)
    expect(await run(['job', 'send', String(id), 'approved'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: `Job ${id} is already cancelled and receives no more events.\n`,
    })
  })

  test('job show and job ls report that no worker handles the kind of a job, and which jobs must end first', async () => {
    const first = await holdfast.jobs.enqueue(mail, { to: 'ada' })
    const second = await holdfast.jobs.enqueue(mail, { to: 'bob' }, { after: [first] })
    const stateOf = async () => {
      const { stdout } = await run(['job', 'show', String(first.id)], env)
      return /^state\t(.*)$/m.exec(stdout)![1]
    }
    const whys = async () => {
      const listed = (await json(['job', 'ls'])) as { id: number; waitReason: string | null }[]
      return [first, second].map(({ id }) => listed.find((job) => job.id === id)!.waitReason)
    }
    expect(await stateOf()).toBe('ready: the job is waiting for a worker, because no worker serves its queue')
    expect(await whys()).toEqual(["no worker serves the job's queue", `waiting for job ${first.id} (ready)`])
    const other = defineJob('other', { queue: 'post', run: () => {} })
    await work(holdfast, [other]).ready()
    expect(await stateOf()).toBe(
      "ready: the job is waiting for a worker, because none of its queue's workers has a definition for the kind mail",
    )
    expect(await whys()).toEqual([
      "none of the queue's workers handles jobs of this kind",
      `waiting for job ${first.id} (ready)`,
    ])
  })

  test('job show exits with 3 for a missing job and with 2 for an invalid id', async () => {
    expect(await run(['job', 'show', '999999999'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: 'There is no job 999999999: it never existed, or it ended so long ago that it was deleted.\n',
    })
    expect(await run(['job', 'show', '4x2'], env)).toMatchObject({
      status: 2,
      stderr: 'holdfast: Expected the ID of a job to be a whole number, got "4x2"\n',
    })
  })
})

describe('job add', () => {
  test('job add enqueues a job and prints its id', async () => {
    const { stdout, stderr, status } = await run(['job', 'add', 'post', 'mail', '{"to": "ada"}'], env)
    expect(stderr).toContain(
      `No worker has registered this kind in the queue "post" of the namespace "${holdfast.namespace}", so the job may wait forever.`,
    )
    expect(status).toBe(0)
    expect(await holdfast.jobs.find(Number(stdout))).toMatchObject({
      kind: 'mail',
      queue: 'post',
      state: 'ready',
      input: { to: 'ada' },
      priority: 0,
    })
    expect(await drain(holdfast, [mail])).toMatchObject([{ result: { sent: 'ada' } }])
  })

  test('job add refuses an input that does not match the JSON schema of the kind', async () => {
    const strict = defineJob('strict', { queue: 'post', input: z.object({ to: z.string() }), run: () => {} })
    work(holdfast, [strict])
    // A worker stores its schemas in the background.
    await until('the schema is stored', async () => {
      const rows = await sql(database.url, "select from holdfast.job_kind where kind = 'strict'")
      return rows.length === 1
    })
    const { status, stderr } = await run(['job', 'add', 'post', 'strict', '{"to": 5}'], env)
    expect(stderr).toBe('The input does not match the JSON schema of the kind strict: to: expected a string, got 5.\n')
    expect(status).toBe(3)
    const fitting = ['job', 'add', 'post', 'strict', '{"to": "ada"}']
    expect(await run(fitting, env)).toMatchObject({ stderr: '', status: 0 })
    const elsewhere = await run([...fitting, '--namespace', 'elsewhere'], env)
    expect(elsewhere.stderr).toBe(
      `No worker has registered this kind in the queue "post" of the namespace "elsewhere", so the job may wait forever. A kind of job with this name exists in the namespace "${holdfast.namespace}". Add, for example, --namespace '${holdfast.namespace}'.\n`,
    )
  })

  test('job add accepts a delay or a time, a priority, and JSON from stdin', async () => {
    const { id } = (await json(['job', 'add', 'post', 'mail', '--delay', '10m', '--priority', '-3'])) as { id: number }
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'waiting', input: null, priority: -3 })
    const dated = await run(['job', 'add', 'post', 'mail', '1', '--run-at', '2099-12-24T18:00+01:00'], env)
    expect((await holdfast.jobs.find(Number(dated.stdout)))!.runAt).toEqual(new Date('2099-12-24T17:00Z'))
    const piped = start(['job', 'add', 'post', 'mail', '-'], env)
    piped.process.stdin!.end('{"to": "bob"}\n')
    expect(await holdfast.jobs.find(Number((await piped.ended).stdout))).toMatchObject({ input: { to: 'bob' } })
  })

  test.each([
    [['{to: 1}'], 'Expected the input to be JSON, got "{to: 1}": ', 'Quote the input for the shell'],
    [['1', '--priority', '6'], 'Expected --priority to be a whole number between -5 and 5, got "6"'],
    [['1', '--run-at', 'tomorrow'], 'Expected --run-at to be a time with a time zone, such as 2030-01-31T18:00Z'],
    [['1', '--run-at', '2030-01-31T18:00'], 'Expected --run-at to be a time with a time zone'],
    [['1', '--delay', '1h', '--run-at', '2030-01-31T18:00Z'], 'Expected --delay or --run-at, got both'],
  ])('job add with %j is a usage error', async (words: string[], ...complaint: string[]) => {
    const { status, stdout, stderr } = await run(['job', 'add', 'post', 'mail', ...words], env)
    expect(stderr.startsWith(`holdfast: ${complaint[0]}`)).toBe(true)
    if (complaint[1]) expect(stderr.split('\n')[1]!.startsWith(complaint[1])).toBe(true)
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(await json(['job', 'ls'])).toEqual([])
  })
})

describe('job retry and job cancel', () => {
  test('job retry makes buried and waiting jobs ready, and exits with 3 for other jobs', async () => {
    const buried = await holdfast.jobs.enqueue(fail, null)
    const waiting = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1h' })
    await drain(holdfast, [fail])
    expect(await run(['job', 'retry', String(buried.id), String(waiting.id)], env)).toEqual({
      status: 0,
      stdout: '',
      stderr: `Job ${buried.id} can run now.\nJob ${waiting.id} can run now.\n`,
    })
    expect(await holdfast.jobs.find(buried.id)).toMatchObject({ state: 'ready', failed: 0 })
    const again = await run(['job', 'retry', '999999999', String(waiting.id), '--json'], env)
    expect(fits('job-retry', JSON.parse(again.stdout))).toEqual({ retried: [] })
    expect(again.stderr).toContain(`Job ${waiting.id} is already ready.\n`)
    expect(again.status).toBe(3)
  })

  test('job retry reports that another job has the same unique key', async () => {
    const { id } = await holdfast.jobs.enqueue(fail, 1, { unique: 'a' })
    await drain(holdfast, [fail])
    await holdfast.jobs.enqueue(fail, 2, { unique: 'a' })
    expect(await run(['job', 'retry', String(id)], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: `Job ${id} was not retried: another job of kind fail has the same unique key.\n`,
    })
  })

  test('job cancel ends a waiting job and stops a running job', async () => {
    const worker = work(holdfast, [hold])
    const running = await holdfast.jobs.enqueue(hold, null)
    const waiting = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1h' })
    await eventually(() => worker.running).toBe(1)
    const words = ['job', 'cancel', String(waiting.id), String(running.id), '--reason', 'no need']
    const { stdout, stderr, status } = await run([...words, '--json'], env)
    expect(fits('job-cancel', JSON.parse(stdout))).toEqual({ cancelled: [waiting.id, running.id] })
    expect(stderr).toContain(`Cancelled job ${waiting.id}.\n`)
    expect(status).toBe(0)
    const error = { name: JobCancelledError.name, message: 'no need' }
    expect(await holdfast.jobs.find(waiting.id)).toMatchObject({ state: 'cancelled', error })
    await eventually(() => holdfast.jobs.find(running.id)).toMatchObject({ state: 'cancelled', error })
    expect(await run(['job', 'cancel', String(waiting.id)], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: `Job ${waiting.id} is already cancelled.\n`,
    })
  })

  test('job cancel validates all ids before it cancels a job', async () => {
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' })
    expect((await run(['job', 'cancel', String(id), 'x'], env)).status).toBe(2)
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready' })
  })
})

describe('job retry, cancel and discard with a search', () => {
  test('job retry shows how many jobs a search finds, and retries them with --yes', async () => {
    await holdfast.jobs.enqueueMany(fail, [1, 2, 3])
    await drain(holdfast, [fail])
    const words = ['job', 'retry', '--state', 'failed', '--kind', 'fail', '--since', '1h']
    const plan = await run(words, env)
    expect(plan.stderr).toContain('3 jobs can run immediately.')
    expect(plan.stderr).toContain('  Kinds: 3 fail\n  States: 3 failed\n')
    expect(plan.stderr).toContain('Nothing was done: retrying many jobs must be confirmed\n')
    expect({ status: plan.status, stdout: plan.stdout }).toEqual({ status: 2, stdout: '' })
    expect(await json([...words, '--yes'])).toEqual({ retried: expect.arrayContaining([expect.any(Number)]) })
    expect(await json(['job', 'ls', '--state', 'ready'])).toHaveLength(3)
    expect(await run([...words, '--yes'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: 'No job was found that can be retried.\n',
    })
  })

  test('job retry reports the jobs whose unique key another job has', async () => {
    await holdfast.jobs.enqueue(fail, 1, { unique: 'a' })
    await drain(holdfast, [fail])
    await holdfast.jobs.enqueue(fail, 2, { unique: 'a' })
    expect(await run(['job', 'retry', '--kind', 'fail', '--yes'], env)).toMatchObject({
      status: 3,
      stderr: expect.stringContaining('1 job skipped: their state changed, or another job has the same unique key.\n'),
    })
  })

  test('job cancel and job discard change the jobs that they can change', async () => {
    const waiting = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1h' })
    const ready = await holdfast.jobs.enqueue(mail, { to: 'bob' })
    const failed = await holdfast.jobs.enqueue(fail, 1)
    const dependent = await holdfast.jobs.enqueue(mail, { to: 'cy' }, { after: [failed], ifFailed: 'wait' })
    await drain(holdfast, [fail])
    expect(await json(['job', 'discard', '--queue', 'default', '--yes'])).toEqual({ discarded: [failed.id] })
    expect(await holdfast.jobs.find(failed.id)).toMatchObject({ state: 'discarded' })
    await eventually(() => holdfast.jobs.find(dependent.id)).toMatchObject({ state: 'ready' })
    expect(await json(['job', 'cancel', '--kind', 'mail', '--reason', 'no need', '--yes'])).toEqual({
      cancelled: [ready.id, dependent.id, waiting.id],
    })
    expect(await holdfast.jobs.find(ready.id)).toMatchObject({ state: 'cancelled', error: { message: 'no need' } })
    expect((await run(['job', 'discard', String(failed.id), '--yes'], env)).status).toBe(3)
  })

  test.each([
    [['job', 'retry'], 'Expected the IDs of jobs, or a search, got neither'],
    [['job', 'cancel', '42', '--kind', 'mail'], 'Expected IDs of jobs or --kind, got both'],
    [['job', 'discard', 'x'], 'Expected the ID of a job to be a whole number, got "x"'],
  ])('%j is a usage error', async (words, complaint) => {
    const { status, stderr } = await run(words, env)
    expect(stderr.startsWith(`holdfast: ${complaint}`)).toBe(true)
    expect(status).toBe(2)
  })

  test.runIf(process.platform === 'linux')('job retry asks for confirmation on a terminal', async () => {
    await holdfast.jobs.enqueue(fail, 1)
    await drain(holdfast, [fail])
    const refused = startOnTerminal(['job', 'retry', '--state', 'failed'], env)
    await refused.says(/Let these jobs run again\? \[y\/N\]/)
    refused.type('\r')
    expect(await refused.ended).toMatchObject({ status: 1, stdout: expect.stringContaining('Nothing was done.') })
    const agreed = startOnTerminal(['job', 'retry', '--state', 'failed'], env)
    await agreed.says(/Let these jobs run again\? \[y\/N\]/)
    agreed.type('y\r')
    expect(await agreed.ended).toMatchObject({ status: 0, stdout: expect.stringContaining('1 job retried.') })
  })
})

describe('job import', () => {
  test('job import shows its plan, refuses without --yes or a terminal, and moves the jobs with --yes', async () => {
    const boss = await bossOf(database.url)
    await boss.createQueue('send-email')
    await boss.insert('send-email', [{ data: { to: 'ada' } }, { data: { to: 'bob' } }, { data: { to: 'cy' } }])
    expect(await boss.fetch('send-email')).toHaveLength(1)
    const plan = {
      from: 'pg-boss',
      imported: [{ kind: 'send-email', jobs: 2 }],
      skipped: [{ reason: 'running', jobs: 1 }],
    }
    expect(await json(['job', 'import', 'pg-boss', '--dry-run'])).toEqual({ ...plan, dryRun: true })
    const { status, stderr } = await run(['job', 'import', 'pg-boss'], env)
    expect(status).toBe(2)
    expect(stderr).toContain(
      'This will move 2 jobs from pg-boss to Holdfast, and remove them from pg-boss: 2 send-email.\n',
    )
    expect(await json(['job', 'ls'])).toEqual([])
    expect(await json(['job', 'import', 'pg-boss', '--into', 'post', '--yes'])).toEqual({ ...plan, dryRun: false })
    expect(await json(['job', 'ls', '--queue', 'post'])).toMatchObject([{ kind: 'send-email' }, { kind: 'send-email' }])
    const { stderr: report } = await run(['job', 'import', 'pg-boss', '--kind', 'send-email'], env)
    expect(report).toBe(
      'No job can be moved from pg-boss.\n' +
        '1 job not moved: they are running; jobs that fail and wait for a retry can be imported later.\n',
    )
  })

  test('job import refuses an unknown source and a schema without tables', async () => {
    const mistyped = await run(['job', 'import', 'pgboss'], env)
    expect(mistyped.stderr).toBe(
      'holdfast: Expected "pg-boss" or "graphile-worker", got "pgboss"\nDid you mean "pg-boss"?\n',
    )
    expect(mistyped.status).toBe(2)
    const absent = await run(['job', 'import', 'pg-boss', '--from-schema', 'nowhere'], env)
    expect(absent.stderr).toContain('Found no tables of pg-boss in the schema "nowhere" of this database')
    expect(absent.status).toBe(1)
  })
})

describe('job export, update and watch', () => {
  test('job export prints ended jobs completely, one JSON object per line', async () => {
    const done = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { meta: { tags: ['a'] } })
    const buried = await holdfast.jobs.enqueue(fail, null)
    await drain(holdfast, [mail, fail])
    await holdfast.jobs.enqueue(mail, { to: 'ready' })
    const lines = async (...args: string[]) => {
      const { stdout, stderr } = await run(['job', 'export', '--format', 'jsonl', '--since', '1h', ...args], env)
      const rows = stdout.split('\n').filter(Boolean)
      expect(stderr).toBe(`Exported ${rows.length === 1 ? '1 job' : `${rows.length} jobs`}.\n`)
      return rows.map((row) => fitsRow('job-export', JSON.parse(row)))
    }
    expect(await lines()).toMatchObject([
      { id: buried.id, state: 'buried', error: { name: 'TypeError' }, progress: 0.5, log: [{ text: 'about to fail' }] },
      {
        id: done.id,
        state: 'done',
        input: { to: 'ada' },
        result: { sent: 'ada' },
        meta: { tags: ['a'] },
        queue: 'post',
      },
    ])
    expect(await lines('--state', 'done')).toHaveLength(1)
    expect((await run(['job', 'export', '--state', 'ready'], env)).status).toBe(2)
  })

  test('job update changes a waiting job, and refuses a job that has ended', async () => {
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1h' })
    const args = ['job', 'update', String(id)]
    const change = ['{"to":"bob"}', '--priority', '2', '--start-by', '2040-01-31T18:00Z']
    expect(await json([...args, ...change])).toEqual({ updated: id })
    expect(await holdfast.jobs.find(id)).toMatchObject({
      input: { to: 'bob' },
      priority: 2,
      startBy: new Date('2040-01-31T18:00Z'),
    })
    expect((await run(args, env)).status).toBe(2)
    await holdfast.jobs.cancel(id)
    expect(await run([...args, '--priority', '1'], env)).toMatchObject({
      status: 3,
      stderr: expect.stringContaining('it is cancelled'),
    })
  })

  test('job watch prints each change until the job has ended', async () => {
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1h' })
    const watching = run(['job', 'watch', String(id), '--jsonl'], env)
    const sessions =
      "select from pg_stat_activity where application_name = 'holdfast command line' and datname = current_database()"
    await until('the command has connected', async () => (await sql(database.url, sessions)).length > 0)
    await holdfast.jobs.retry(id)
    await drain(holdfast, [mail])
    const { stdout } = await watching
    const seen = stdout
      .split('\n')
      .filter(Boolean)
      .map((row) => fits('job-watch', JSON.parse(row)))
    expect(seen.at(-1)).toMatchObject({ id, state: 'done', result: { sent: 'ada' } })
    expect((await run(['job', 'watch', '999999'], env)).status).toBe(3)
  })
})
