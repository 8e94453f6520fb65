import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  DrainingError,
  defineJob,
  type HoldfastOptions,
  InvalidInputError,
  JobCancelledError,
  JobFailedError,
  JobOutcome,
  JobTimeoutError,
  NonRetryableError,
  UsageError,
} from '../../src/index.js'
import { drain } from '../../src/testing/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, stays, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { anchorModes, gate, giveClaimAway, rowsOf, untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await sql(fresh.url, 'create table effect (name text not null)')
})
afterAll(() => fresh.drop())

const effects = async (name: string) => {
  const [row] = await sql<{ count: number }>(fresh.url, 'select count(*)::int from effect where name = $1', [name])
  return row!.count
}

/** Makes the session acquire lock 7. Calls of job_done that end the job wait for the lock before they lock its claim. */
async function holdEndOf(client: Client, id: number) {
  await client.query(`
    create schema held;
    alter function holdfast.job_done set schema held;
    create function holdfast.job_done(
      ids bigint[], fences bigint[], results json, emptied bigint[], out recorded bigint[], out follow_ups bigint[],
      out urgent boolean
    )
    language plpgsql as $$
    begin
      if ${id} = any(ids) then
        perform pg_advisory_xact_lock_shared(7);
      end if;
      select * into recorded, follow_ups, urgent from held.job_done(ids, fences, results, emptied);
    end
    $$;
    select pg_advisory_lock(7)`)
}

describe.each(anchorModes)('$name', ({ name: way, anchor }) => {
  const start = (more: Partial<HoldfastOptions> = {}) =>
    open({ url: fresh.url, anchor, namespace: `run ${way}`, ...more })
  const wait = { wait: '15s' } as const

  test('a job runs with its input, and its result is stored', async () => {
    const holdfast = await start()
    const add = defineJob('add', { run: ({ a, b }: { a: number; b: number }) => a + b })
    work(holdfast, [add])
    const jobs = await holdfast.jobs.enqueueMany(add, [
      { a: 1, b: 2 },
      { a: 3, b: 4 },
    ])
    expect(await holdfast.jobs.result(jobs[0]!.id, wait)).toBe(3)
    expect(await holdfast.jobs.result(jobs[1]!.id, wait)).toBe(7)
    expect(await holdfast.jobs.find(jobs[0]!.id)).toMatchObject({
      kind: 'add',
      queue: 'default',
      state: 'done',
      input: { a: 1, b: 2 },
      result: 3,
      failed: 0,
    })
  })

  test('results of undefined, null and every type of JSON are distinguished', async () => {
    const holdfast = await start()
    const values = [undefined, null, 0, '', false, [], {}, 'a"b\u0000c', { deep: [null] }]
    const give = defineJob('give', { run: (at: number) => values[at] })
    work(holdfast, [give])
    const jobs = await holdfast.jobs.enqueueMany(
      give,
      values.map((_, at) => at),
    )
    for (const [at, { id }] of jobs.entries()) expect(await holdfast.jobs.result(id, wait)).toEqual(values[at])
  })

  test('a failing job is retried after a pause, and then buried with the errors of its attempts', async () => {
    const holdfast = await start()
    const attempts: number[] = []
    const reported: unknown[] = []
    const fail = defineJob('fail', {
      retry: { attempts: 3, backoff: 20 },
      run: (_: null, job) => {
        attempts.push(job.attempt)
        throw Object.assign(new TypeError(`no ${job.attempt}`), { code: 'E_NO' })
      },
    })
    holdfast.on('job.failed', ({ kind, attempt, state, error }) => {
      if (kind === 'fail') reported.push([(error as Error).message, attempt, state])
    })
    work(holdfast, [fail])
    const { id } = await holdfast.jobs.enqueue(fail, null)
    const error = await caught(JobFailedError, holdfast.jobs.result(id, wait))
    expect(error.message).toBe(`Job ${id} was buried: no 3`)
    expect(error.failure).toMatchObject({ name: 'TypeError', message: 'no 3', code: 'E_NO' })
    expect(attempts).toEqual([1, 2, 3])
    const found = (await holdfast.jobs.find(id))!
    expect(found.failed).toBe(3)
    expect(found.failures.map(({ attempt, message }) => [attempt, message])).toEqual([
      [1, 'no 1'],
      [2, 'no 2'],
      [3, 'no 3'],
    ])
    for (const { instance, claimedAt, at } of found.failures) {
      expect(instance).toBe(holdfast.id)
      expect(Date.parse(claimedAt)).toBeLessThanOrEqual(Date.parse(at))
    }
    expect(reported).toEqual([
      ['no 1', 1, 'retried'],
      ['no 2', 2, 'retried'],
      ['no 3', 3, 'buried'],
    ])
    // A retry by hand gives the job all of its attempts again.
    expect(await holdfast.jobs.retry(id)).toBe(true)
    await until('the retried job was tried three times', () => attempts.length === 6)
    await untilState(holdfast, id, 'buried')
    expect(await holdfast.jobs.redrive('default')).toBe(1)
    await until('the redriven job was tried three times', () => attempts.length === 9)
  })

  test('a redrive ends even if the redriven job immediately fails again', async () => {
    const holdfast = await start()
    const fail = defineJob('fail', {
      queue: 'hopeless',
      retry: { attempts: 1 },
      run: () => {
        throw new Error('no')
      },
    })
    const { id } = await holdfast.jobs.enqueue(fail, null)
    await drain(holdfast, [fail])
    const pieces: number[] = []
    for await (const some of holdfast.jobs.redriving('hopeless')) {
      if (pieces.push(some) > 3) break
      await drain(holdfast, [fail])
    }
    expect(pieces).toEqual([1])
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'buried' })
    expect(await holdfast.jobs.redrive('hopeless')).toBe(1)
  })

  test('a NonRetryableError, or a result that JSON cannot represent, buries the job without a retry', async () => {
    const holdfast = await start()
    let runs = 0
    const never = defineJob('never', {
      run: (bad: boolean) => {
        runs++
        if (bad) return 1n
        throw new NonRetryableError('no such user')
      },
    })
    work(holdfast, [never])
    const [one, other] = await holdfast.jobs.enqueueMany(never, [false, true])
    await expect(holdfast.jobs.result(one!.id, wait)).rejects.toThrow('was buried: no such user')
    await expect(holdfast.jobs.result(other!.id, wait)).rejects.toThrow(
      'Expected a result that JSON can represent, got 1 (bigint)',
    )
    expect(runs).toBe(2)
  })

  test('a handler can return an outcome instead of a result: retryAfter, cancel or discard', async () => {
    const holdfast = await start()
    let tries = 0
    const say = defineJob('say', {
      retry: { attempts: 1 },
      run: (what: string) => {
        if (what === 'later') return tries++ < 2 ? JobOutcome.retryAfter(10) : 'at last'
        return what === 'cancel' ? JobOutcome.cancel('not wanted') : JobOutcome.discard('gone')
      },
    })
    work(holdfast, [say])
    const [later, cancelled, discarded] = await holdfast.jobs.enqueueMany(say, ['later', 'cancel', 'discard'])
    expect(await holdfast.jobs.result(later!.id, wait)).toBe('at last')
    expect((await holdfast.jobs.find(later!.id))!.failed).toBe(0)
    await expect(holdfast.jobs.result(cancelled!.id, wait)).rejects.toThrow('was cancelled: not wanted')
    await expect(holdfast.jobs.result(discarded!.id, wait)).rejects.toThrow('was discarded: gone')
  })

  test('a schema validates the input before the enqueue and before the run', async () => {
    const holdfast = await start()
    const schema = (max: number, isAsync: boolean) => ({
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) => {
          const verdict =
            typeof value === 'number' && value <= max
              ? { value: `number ${value}` }
              : { issues: [{ message: `more than ${max}`, path: [{ key: 'n' }] }] }
          return isAsync ? Promise.resolve(verdict) : verdict
        },
        types: undefined as { input: number; output: string } | undefined,
      },
    })
    const before = defineJob('checked', { input: schema(10, true), run: (text) => text.toUpperCase() })
    const after = defineJob('checked', { input: schema(5, false), run: (text) => text.toUpperCase() })
    const error = await caught(InvalidInputError, holdfast.jobs.enqueue(before, 11))
    expect(error.message).toBe('The input for "checked" does not match its schema: n: more than 10')
    const [fits, tooMuch] = await holdfast.jobs.enqueueMany(before, [4, 7])
    work(holdfast, [after])
    expect(await holdfast.jobs.result(fits!.id, wait)).toBe('NUMBER 4')
    await expect(holdfast.jobs.result(tooMuch!.id, wait)).rejects.toThrow('does not match its schema: n: more than 5')
    expect((await holdfast.jobs.find(tooMuch!.id))!.state).toBe('buried')
  })

  test('schemas and handlers can return any thenable, including a query that starts only when it is awaited', async () => {
    const holdfast = await start()
    const begun: string[] = []
    const lazy = <T>(what: string, value: T): Promise<T> => {
      const query: PromiseLike<T> = {
        // biome-ignore lint/suspicious/noThenProperty: the test needs a thenable
        then(...given) {
          begun.push(what)
          return Promise.resolve(value).then(...given)
        },
      }
      return query as Promise<T>
    }
    const input = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) => lazy('schema', { value: value as number }),
      },
    }
    const job = defineJob('job', { input, run: (n) => lazy('handler', n + 1) })
    work(holdfast, [job])
    const [ref] = await holdfast.jobs.enqueueMany(job, [1])
    expect(await holdfast.jobs.result(ref!.id, wait)).toBe(2)
    expect(begun).toEqual(['schema', 'schema', 'handler'])
  })

  test('the writes of a handler through tx commit once, together with the end of the job', async () => {
    const holdfast = await start()
    const name = `${way} tx`
    let tries = 0
    const write = defineJob('write', {
      retry: { backoff: 10 },
      run: async (_: null, { tx }) => {
        await tx.query('insert into effect values ($1)', [name])
        if (tries++ === 0) throw new Error('after the write')
        return 'written'
      },
    })
    work(holdfast, [write])
    const { id } = await holdfast.jobs.enqueue(write, null)
    expect(await holdfast.jobs.result(id, wait)).toBe('written')
    expect(tries).toBe(2)
    expect(await effects(name)).toBe(1)
  })

  test('a handler that exceeds its timeout receives the abort signal, and the attempt fails', async () => {
    const holdfast = await start()
    const reasons: unknown[] = []
    const slow = defineJob('slow', {
      timeout: 50,
      retry: { attempts: 1 },
      run: async (_: null, { signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reasons.push(signal.reason)
        return 'too late'
      },
    })
    work(holdfast, [slow])
    const { id } = await holdfast.jobs.enqueue(slow, null)
    await expect(holdfast.jobs.result(id, wait)).rejects.toThrow('The attempt exceeded its timeout of 50ms')
    expect(reasons[0]).toBeInstanceOf(JobTimeoutError)
  })

  test('a running job that another instance cancels is aborted within seconds', async () => {
    const [holdfast, other] = [await start(), await start()]
    const begun = gate()
    let reason: unknown
    const endless = defineJob('endless', {
      run: async (_: null, { signal }) => {
        begun.open()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reason = signal.reason
        throw reason
      },
    })
    work(holdfast, [endless])
    const { id } = await other.jobs.enqueue(endless, null)
    await begun.opened
    const from = performance.now()
    expect(await other.jobs.cancel(id, 'changed my mind')).toBe(true)
    await expect(other.jobs.result(id, wait)).rejects.toThrow('was cancelled: changed my mind')
    expect(performance.now() - from).toBeLessThan(5_000)
    expect(reason).toBeInstanceOf(JobCancelledError)
    expect(await other.jobs.cancel(id)).toBe(false)
  })

  test('a cancelled job does not run again, even if its worker has not been notified', async () => {
    const holdfast = await start()
    const jobs = holdfast.jobs
    const tries: string[] = []
    const job = defineJob('job', {
      retry: { backoff: 10, attempts: 2 },
      run: async (how: string, { id, signal }) => {
        tries.push(how)
        if (how === 'given back') await new Promise((resolve) => signal.addEventListener('abort', resolve))
        // Cancels the job as jobs.cancel does, but without the notification.
        await sql(
          fresh.url,
          `insert into holdfast.job_note (id, fence, cancelled) select id, fence, $2 from holdfast.job_running where id = $1`,
          [id, 'not wanted'],
        )
        if (how === 'later') return JobOutcome.retryAfter(10)
        throw how === 'never' ? new NonRetryableError('its own') : new Error('its own')
      },
    })
    const worker = work(holdfast, [job])
    const all = ['throws', 'never', 'later', 'given back']
    const refs = await jobs.enqueueMany(job, all)
    await until('only the last job runs', () => tries.length === 4 && worker.running === 1)
    await worker.close({ within: 10 })
    work(holdfast, [job])
    for (const { id } of refs) await expect(jobs.result(id, wait)).rejects.toThrow('was cancelled: not wanted')
    expect(tries.sort()).toEqual(all.sort())
    // The error of the handler is recorded too.
    expect((await jobs.find(refs[0]!.id))!.failures).toMatchObject([{ message: 'its own' }])
  })

  test('a job whose cancellation commits while its worker returns it does not run again', async () => {
    const holdfast = await start()
    const job = defineJob('job', {
      run: (_, { signal }) =>
        new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    })
    const worker = work(holdfast, [job])
    const { id } = await holdfast.jobs.enqueue(job, null)
    await until('the job runs', () => worker.running === 1)
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    await client.query("select holdfast.job_cancel($1, 'not wanted')", [id])
    const closed = worker.close({ within: 0 })
    await until('job_end waits for the transaction that cancels the job', async () => {
      const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%job_end(%'"
      return (await sql(fresh.url, waiting)).length === 1
    })
    await client.query('commit')
    await closed
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'cancelled', error: { message: 'not wanted' } })
  })

  test('a ready or delayed job is cancelled without a worker', async () => {
    const holdfast = await start()
    const idle = defineJob('idle', { queue: 'without workers', run: () => {} })
    const { id: ready } = await holdfast.jobs.enqueue(idle, null)
    const { id: delayed } = await holdfast.jobs.enqueue(idle, null, { delay: '1h' })
    expect(await holdfast.jobs.find(delayed)).toMatchObject({ state: 'waiting', waitsFor: { reason: 'time' } })
    for (const id of [ready, delayed]) {
      expect(await holdfast.jobs.cancel(id)).toBe(true)
      expect((await holdfast.jobs.find(id))!.state).toBe('cancelled')
    }
  })

  test('a delayed job does not run before its delay or its runAt, and runs soon afterwards', async () => {
    const holdfast = await start()
    const ranAt = new Map<string, number>()
    const note = defineJob('note', { run: (name: string) => void ranAt.set(name, performance.now()) })
    work(holdfast, [note])
    const from = performance.now()
    await holdfast.jobs.enqueue(note, 'delay', { delay: 400 })
    await holdfast.jobs.enqueue(note, 'runAt', { runAt: new Date(Date.now() + 300) })
    await holdfast.jobs.enqueue(note, 'now')
    await until('all jobs have run', () => ranAt.size === 3)
    expect([...ranAt.keys()][0]).toBe('now')
    expect(ranAt.get('delay')! - from).toBeGreaterThan(395)
    // Maintenance runs soon after a job is due.
    expect(ranAt.get('delay')! - from).toBeLessThan(5_000)
  })

  test('jobs with larger priorities run first, and jobs with the same priority run in order', async () => {
    const holdfast = await start()
    const order: string[] = []
    const note = defineJob('in order', { queue: 'in order', run: (name: string) => void order.push(name) })
    for (const priority of [0, -5, 5, 1]) {
      await holdfast.jobs.enqueueMany(note, [`${priority} a`, `${priority} b`], { priority })
    }
    work(holdfast, [note], { concurrency: 1 })
    await until('all jobs have run', () => order.length === 8)
    expect(order).toEqual(['5 a', '5 b', '1 a', '1 b', '0 a', '0 b', '-5 a', '-5 b'])
  })

  test('a paused queue runs no job until it is resumed', async () => {
    const holdfast = await start()
    let ran = false
    const job = defineJob('paused', {
      queue: 'paused',
      run: () => {
        ran = true
      },
    })
    work(holdfast, [job])
    await holdfast.jobs.pause('paused')
    const { id } = await holdfast.jobs.enqueue(job, null)
    const other = defineJob('other', { run: () => 1 })
    work(holdfast, [other])
    await holdfast.jobs.result((await holdfast.jobs.enqueue(other, null)).id, wait)
    expect(ran).toBe(false)
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', waitsFor: { reason: 'pause' } })
    await holdfast.jobs.resume('paused')
    await holdfast.jobs.result(id, wait)
    expect(ran).toBe(true)
  })

  test.each(['alone', 'in the transaction of its handler'])(
    'the end of a job waits until its log is written: %s',
    async (how) => {
      const holdfast = await start()
      const [talking, ending] = [gate(), gate()]
      const log = defineJob('log', {
        run: async (isFirst: boolean, job) => {
          await talking.opened
          job.log('line')
          if (how !== 'alone') await job.tx.query('select')
          if (!isFirst) await ending.opened
          else await new Promise<void>((resolve) => job.signal.addEventListener('abort', () => resolve()))
        },
      })
      const worker = work(holdfast, [log])
      const [first, second] = await holdfast.jobs.enqueueMany(log, [true, false])
      await until('both jobs run', () => worker.running === 2)
      const client = await sqlSession(fresh.url)
      await client.query('begin')
      await client.query(
        'insert into holdfast.job_note (id, fence) select id, fence from holdfast.job_running where id = $1',
        [first!.id],
      )
      talking.open()
      await until('the notes of both jobs wait for the row of the first job', async () => {
        const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%n.progress%'"
        return (await sql(fresh.url, waiting)).length === 1
      })
      ending.open()
      // An end that does not wait would be recorded before the notes are written.
      await stays('the second job has not ended', async () => (await rowsOf(fresh.url, second!.id)).history === 0, 50)
      await client.query('commit')
      expect(await holdfast.jobs.result(second!.id, wait)).toBeUndefined()
      expect((await holdfast.jobs.find(second!.id))!.log).toMatchObject([{ text: 'line' }])
    },
  )

  test('a progress with invalid text is stored, and does not prevent the notes of other jobs', async () => {
    const holdfast = await open({ url: fresh.url, namespace: 'invalid progress' })
    const opening = gate()
    const job = defineJob('job', {
      run: async (name: string, { progress, log }) => {
        progress({ file: name })
        log(name)
        await opening.opened
      },
    })
    const names = ['a\0b', 'half of \ud83d', 'plain']
    const refs = await holdfast.jobs.enqueueMany(job, names)
    work(holdfast, [job])
    const found = () => Promise.all(refs.map(({ id }) => holdfast.jobs.find(id)))
    await until('all notes are visible', async () => (await found()).every((one) => one?.log?.length === 1))
    expect((await found()).map((one) => one!.progress)).toEqual([
      { file: 'a\uFFFDb' },
      { file: 'half of \uFFFD' },
      { file: 'plain' },
    ])
    opening.open()
  })

  test('progress and log are visible while the job runs, and are kept afterwards', async () => {
    const holdfast = await start()
    const opening = gate()
    const talk = defineJob('talk', {
      run: async (_: null, { progress, log }) => {
        progress(0.5)
        log('half')
        await opening.opened
        progress(1)
        log('all')
      },
    })
    work(holdfast, [talk])
    const { id } = await holdfast.jobs.enqueue(talk, null)
    await until('the progress is visible', async () => (await holdfast.jobs.find(id))!.progress === 0.5)
    expect(await holdfast.jobs.find(id)).toMatchObject({
      state: 'running',
      log: [{ text: 'half' }],
      instance: holdfast.id,
    })
    opening.open()
    await holdfast.jobs.result(id, wait)
    expect(await holdfast.jobs.find(id)).toMatchObject({ progress: 1, log: [{ text: 'half' }, { text: 'all' }] })
  })

  test('worker.close lets jobs finish within its time limit, and returns the other jobs to the queue', async () => {
    const holdfast = await start({ namespace: `closing ${way}` })
    const opening = gate()
    const running: number[] = []
    const reasons: unknown[] = []
    const hold = defineJob('hold', {
      run: async (at: number, { signal }) => {
        running.push(at)
        if (at === 1) {
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          reasons.push(signal.reason)
          throw new Error('stopped')
        }
        await opening.opened
      },
    })
    const worker = work(holdfast, [hold], { concurrency: 2 })
    const jobs = await holdfast.jobs.enqueueMany(hold, [0, 1, 2, 3])
    await until('two jobs run', () => running.length === 2)
    const closing = worker.close({ within: 100 })
    opening.open()
    await closing
    expect(reasons[0]).toBeInstanceOf(DrainingError)
    expect(reasons[0]).toMatchObject({ code: 'DRAINING', part: 'worker', retryable: true })
    const states = await Promise.all(jobs.map(async ({ id }) => (await holdfast.jobs.find(id))!))
    expect(states.map(({ state }) => state)).toEqual(['done', 'ready', 'ready', 'ready'])
    // A returned job does not count as an attempt.
    expect(states.map(({ failed, crashes }) => failed + crashes)).toEqual([0, 0, 0, 0])
    await holdfast.close()
  })

  const cases = {
    returns: 'return',
    throws: 'throw',
    'requests a retry': 'later',
    'commits its writes through tx': 'tx',
  }

  test.each(Object.entries(cases))(
    'a job that was taken over cannot be ended by an attempt that %s late',
    async (_, late) => {
      const holdfast = await start({ namespace: `taken over ${way} ${late}` })
      const opening = gate()
      const begun = gate()
      const job = defineJob('taken over', {
        run: async (_: null, { tx }) => {
          if (late === 'tx') await tx.query('insert into effect values ($1)', ['taken over'])
          begun.open()
          await opening.opened
          if (late === 'throw') throw new Error('late')
          return late === 'later' ? JobOutcome.retryAfter(1) : 'late'
        },
      })
      const worker = work(holdfast, [job])
      const { id } = await holdfast.jobs.enqueue(job, null)
      await begun.opened
      // No worker may run the job again meanwhile.
      await holdfast.jobs.pause('default')
      await giveClaimAway(fresh.url, id)
      opening.open()
      await until('the record was refused, or the worker has noticed the loss', () => worker.running === 0)
      await worker.close()
      expect((await holdfast.jobs.find(id))!).toMatchObject({ failed: 0, result: undefined })
      expect(await rowsOf(fresh.url, id)).toMatchObject({ job: 1, waiting: 0, history: 0 })
      expect(await effects('taken over')).toBe(0)
    },
  )

  test('a job with one crash left starts only after the end of the previous job is recorded', async () => {
    const url = await databaseUrl()
    const holdfast = await start({ url })
    const begun: number[] = []
    const job = defineJob('job', { run: (n: number) => void begun.push(n) })
    const [first] = await holdfast.jobs.enqueueMany(job, [1, 2])
    const client = await sqlSession(url)
    await holdEndOf(client, first!.id)
    await client.query('update holdfast.job set crashes = 2')
    work(holdfast, [job])
    await until('the first job has begun', () => begun.length === 1)
    await stays('the other job waits', () => begun.length === 1, 300)
    await client.query('select pg_advisory_unlock(7)')
    await until('the other job has begun', () => begun.length === 2)
  })

  test('no claim and no worker row is left after all jobs are done and the worker has closed', async () => {
    const url = await databaseUrl()
    const holdfast = await start({ url })
    const noop = defineJob<unknown>('noop', { run: () => {} })
    const worker = work(holdfast, [noop], { concurrency: 20 })
    await holdfast.jobs.enqueueMany(
      noop,
      Array.from({ length: 2_000 }, (_, at) => at),
    )
    await until('all jobs have ended', async () => (await rowsOf(url)).history === 2_000)
    await within(5_000, 'Closing the worker', worker.close())
    expect(await rowsOf(url)).toEqual({ job: 0, waiting: 0, claim: 0, worker: 0, history: 2_000 })
    expect(worker.refusedEnds).toBe(0)
  })

  test('a worker runs at most as many jobs at the same time as its concurrency', async () => {
    const holdfast = await start({ namespace: `concurrency ${way}` })
    let now = 0
    let max = 0
    const job = defineJob('counted', {
      run: async () => {
        max = Math.max(max, ++now)
        await new Promise((resolve) => setImmediate(resolve))
        now--
      },
    })
    work(holdfast, [job], { concurrency: 7 })
    const jobs = await holdfast.jobs.enqueueMany(job, new Array(500).fill(null))
    for (const { id } of jobs.slice(-5)) await holdfast.jobs.result(id)
    await until('all jobs have ended', () => now === 0)
    expect(max).toBe(7)
  })

  test('a claim is kept while the end of one of its jobs is not recorded', async () => {
    const url = await databaseUrl()
    const holdfast = await start({ url })
    const job = defineJob('job', {
      run: (fails: boolean) => {
        if (fails) throw new NonRetryableError('for good')
      },
    })
    // The first claim takes one job. The second claim takes the other two.
    const [, done, failed] = await holdfast.jobs.enqueueMany(job, [false, false, true])
    const client = await sqlSession(url)
    await holdEndOf(client, done!.id)
    work(holdfast, [job])
    await untilState(holdfast, failed!.id, 'buried')
    const claims = () => sql(url, 'select ids::text[] from holdfast.claim where $1 = any(ids)', [done!.id])
    expect(await claims()).toEqual([{ ids: [String(done!.id), String(failed!.id)] }])
    await client.query('select pg_advisory_unlock(7)')
    await holdfast.jobs.result(done!.id)
    await until('the claim is deleted', async () => (await rowsOf(url)).claim === 0)
  })

  test('a job whose recorded end a failover has lost runs again, although its worker has recorded the end', async () => {
    const url = await databaseUrl()
    const [holdfast, other] = [await start({ url }), await start({ url })]
    const gates = [gate(), gate(), gate()]
    const job = defineJob('job', { run: (at: number) => gates[at]!.opened })
    // The first claim takes one job. The second claim takes the other two.
    const [first, lost, last] = await holdfast.jobs.enqueueMany(job, [0, 1, 2])
    const worker = work(holdfast, [job])
    await until('all jobs run', () => worker.running === 3)
    for (const [at, { id }] of [first!, lost!].entries()) {
      gates[at]!.open()
      await untilState(holdfast, id, 'done')
    }
    // As if a new primary had not received the end.
    await sql(url, 'delete from holdfast.job_end where $1 = any(ids)', [lost!.id])
    gates[2]!.open()
    await untilState(holdfast, last!.id, 'done')
    await stays('the claim of the lost job is kept', async () => (await rowsOf(url)).claim === 1, 300)
    await holdfast.close()
    work(other, [job])
    await untilState(other, lost!.id, 'done')
    const left = async () => {
      const { job, claim } = await rowsOf(url)
      return job! + claim!
    }
    await until('no job and no claim is left', async () => (await left()) === 0)
  })
})

test('invalid definitions and arguments throw a UsageError', async () => {
  const { jobs } = await open({ url: fresh.url })
  const job = defineJob('job', { run: (_: unknown) => {} })
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(UsageError, async () => call())).message).toContain(message)
  await refused('Expected run to be a function, got 1 (number)', () => defineJob('x', { run: 1 } as never))
  await refused('Expected timeout to be a duration of at least 1ms', () =>
    defineJob('x', { timeout: 'soon' as never, run() {} }),
  )
  await refused('defineJob has no option "attempts": did you mean "retry.attempts"?', () =>
    defineJob('x', { attempts: 3, run: () => {} } as never),
  )
  await refused('defineJob has no option "retrys": did you mean "retry"?', () =>
    defineJob('x', { retrys: 3, run() {} } as never),
  )
  await refused('Expected the name of the job to be a string', () => defineJob('', { run() {} }))
  await refused('Expected a definition made by defineJob, got "job" (string)', () => jobs.enqueue('job' as never, 1))
  await refused('Expected priority to be a whole number between -5 and 5, got 6', () =>
    jobs.enqueue(job, 1, { priority: 6 }),
  )
  await refused('Expected either delay or runAt, got both', () => jobs.enqueue(job, 1, { delay: 1, runAt: new Date() }))
  await refused('Expected an input that JSON can represent, got 1 (bigint) at input.n', () =>
    jobs.enqueue(job, { n: 1n }),
  )
  await refused('Expected a list of definitions made by defineJob, got an empty array', () => jobs.work([]))
  await refused('Two job definitions have the same name "job"', () => jobs.work([job, job]))
  await refused('Expected a job or its id (a positive whole number), got "1" (string)', () => jobs.find('1' as never))
  await refused('Expected the delay of JobOutcome.retryAfter to be a duration', () =>
    JobOutcome.retryAfter('soon' as never),
  )
})

test('a worker whose jobs take long claims no job that it cannot run', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const opening = gate()
  const long = defineJob('long', { run: () => opening.opened })
  const jobs = await holdfast.jobs.enqueueMany(long, new Array(20).fill(null))
  const worker = work(holdfast, [long], { concurrency: 2 })
  await until('two jobs run', () => worker.running === 2)
  // This is longer than the interval at which the worker checks all priorities.
  await stays(
    'exactly two jobs are claimed',
    async () => {
      const states = await Promise.all(jobs.map(async ({ id }) => (await holdfast.jobs.find(id))!.state))
      return states.filter((state) => state === 'running').length === 2
    },
    1_500,
  )
  opening.open()
  await Promise.all(jobs.map(({ id }) => holdfast.jobs.result(id)))
})
