// Tests steps, cursors, sleeps and events: what a later attempt of a job does not do again.
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  DatabaseUnreachableError,
  DuplicateStepError,
  defineJob,
  type Holdfast,
  type JobContext,
  JobSuspendedError,
  PayloadTooLargeError,
  StepLimitError,
  UsageError,
} from '../../src/index.js'
import { passTime } from '../../src/testing/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, stays, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { gate, giveClaimAway, untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await sql(fresh.url, 'create table public.effect (namespace text, what text)')
})
afterAll(() => fresh.drop())

const start = (namespace: string) => open({ url: fresh.url, namespace })
const effects = async (namespace: string) =>
  (
    await sql<{ what: string }>(fresh.url, 'select what from public.effect where namespace = $1 order by what', [
      namespace,
    ])
  ).map(({ what }) => what)

/** Starts a worker for one job with this handler and enqueues it. */
async function run(
  holdfast: Holdfast,
  handler: (job: JobContext) => unknown,
  retry: { attempts?: number; backoff?: number } = { attempts: 3, backoff: 1 },
) {
  const definition = defineJob('stepped', { retry, run: async (_: null, job) => handler(job) })
  const worker = work(holdfast, [definition])
  const { id } = await holdfast.jobs.enqueue(definition, null)
  return { id, worker, definition }
}

const insert = (namespace: string, what: string) =>
  ['insert into public.effect values ($1, $2)', [namespace, what]] as [string, string[]]

test('a retried job gets the results of recorded steps and does not run them again', async () => {
  const holdfast = await start('retried')
  const calls: string[] = []
  const { id } = await run(holdfast, async (job) => {
    const first = await job.step('first', () => {
      calls.push('first')
      return { at: new Date(0), left: undefined }
    })
    const second = await job.step('second', async ({ tx }) => {
      calls.push('second')
      await tx.query(...insert('retried', `second ${job.attempt}`))
    })
    if (job.attempt === 1) throw new Error('after two steps')
    return { first, second }
  })
  expect(await holdfast.jobs.result(id)).toEqual({ first: { at: '1970-01-01T00:00:00.000Z' } })
  expect(calls).toEqual(['first', 'second'])
  expect(await effects('retried')).toEqual(['second 1'])
  const found = (await holdfast.jobs.find(id))!
  expect(found.failed).toBe(1)
  expect(found.steps).toMatchObject([
    { name: 'first', kind: 'step', attempt: 1 },
    { name: 'second', kind: 'step', attempt: 1 },
  ])
})

test('a step whose function throws leaves neither a record nor an effect', async () => {
  const holdfast = await start('throws')
  const { id } = await run(holdfast, async (job) => {
    await job.step('fails once', async ({ tx }) => {
      await tx.query(...insert('throws', `attempt ${job.attempt}`))
      if (job.attempt === 1) throw new Error('rolled back')
    })
  })
  await holdfast.jobs.result(id)
  expect(await effects('throws')).toEqual(['attempt 2'])
})

test('a step whose transaction cannot commit is not recorded', async () => {
  const holdfast = await start('commit fails')
  await sql(fresh.url, 'create table public.deferred (id integer unique deferrable initially deferred)')
  const { id } = await run(holdfast, async (job) => {
    // PostgreSQL checks the constraint when the transaction commits.
    await job.step('insert', ({ tx }) =>
      tx.query('insert into public.deferred select $1 from generate_series($1, 2)', [job.attempt]),
    )
  })
  await holdfast.jobs.result(id)
  expect(await sql(fresh.url, 'select id from public.deferred')).toEqual([{ id: 2 }])
})

test('a stale worker records neither a step nor its effect', async () => {
  const holdfast = await start('stale')
  const [begun, opening] = [gate(), gate()]
  const errors: unknown[] = []
  const { id, worker } = await run(holdfast, async (job) => {
    begun.open()
    await opening.opened
    for (const [name, usesTx] of [
      ['with tx', true],
      ['without tx', false],
    ] as const) {
      await job
        .step(name, async ({ tx }) => {
          if (usesTx) await tx.query(...insert('stale', name))
        })
        .catch((error) => errors.push(error))
    }
  })
  await begun.opened
  await giveClaimAway(fresh.url, id)
  opening.open()
  await until('the lost attempt has ended', () => worker.running === 0)
  expect(errors).toMatchObject([{ code: 'JOB_LOST' }, { code: 'JOB_LOST' }])
  expect(await effects('stale')).toEqual([])
  expect(await sql(fresh.url, 'select name from holdfast.job_step where job = $1', [id])).toEqual([])
})

test('an attempt whose job was returned cannot record a step, although its claim has another job', async () => {
  const holdfast = await start('returned')
  const opening = gate()
  const outcomes: unknown[] = []
  let isFirst = true
  const definition = defineJob('slow', {
    run: async (n: number, job) => {
      if (n === 1 || !isFirst) return
      isFirst = false
      await opening.opened
      // Another session has ended this attempt, as its worker would do.
      outcomes.push(await job.step('late', () => 1).catch((error) => error.code))
    },
  })
  const { id } = await holdfast.jobs.enqueue(definition, 0)
  await holdfast.jobs.enqueue(definition, 1)
  work(holdfast, [definition], { concurrency: 1 })
  await untilState(holdfast, id, 'running')
  await sql(fresh.url, 'update holdfast.claim set ids = ids || -1::bigint where $1 = any(ids)', [id])
  await sql(
    fresh.url,
    `select holdfast.job_end(json_build_array(json_build_object('id', $1::bigint, 'fence', fence, 'state', 'returned')), '{}')
     from holdfast.claim where $1 = any(ids)`,
    [id],
  )
  opening.open()
  await until('the step has failed', () => outcomes.length > 0)
  expect(outcomes).toEqual(['JOB_LOST'])
  await holdfast.jobs.result(id)
})

test('a cursor continues with its last value', async () => {
  const holdfast = await start('cursor')
  const { id } = await run(holdfast, async (job) => {
    const last = await job.cursor('last', 0)
    while (last.value < 5) {
      if (job.attempt === 1 && last.value === 3) throw new Error('in the middle')
      await last.advance(async ({ tx }) => {
        await tx.query(...insert('cursor', `${last.value}`))
        return last.value + 1
      })
    }
    return last.value
  })
  expect(await holdfast.jobs.result(id)).toBe(5)
  expect(await effects('cursor')).toEqual(['0', '1', '2', '3', '4'])
  expect((await holdfast.jobs.find(id))!.steps).toMatchObject([{ name: 'last', kind: 'cursor', attempt: 2 }])
})

test('a sleeping job gives its slot back, and continues without another attempt', async () => {
  const holdfast = await start('sleep')
  const attempts: number[] = []
  const cleanedUp: unknown[] = []
  const ended: string[] = []
  holdfast.on('job.ended', ({ state }) => ended.push(state))
  const { id, worker } = await run(holdfast, async (job) => {
    attempts.push(job.attempt)
    await job.step('before', () => 1)
    try {
      await job.tx.query(...insert('sleep', 'outside of a step'))
      await job.sleep('1h')
    } finally {
      cleanedUp.push(job.signal.reason)
    }
    return 'awake'
  })
  const sleeping = await untilState(holdfast, id, 'waiting')
  await until('the slot is free', () => worker.running === 0)
  expect(sleeping.steps).toMatchObject([
    { name: 'before' },
    { name: 'sleep', kind: 'sleep', endedAt: null, event: null },
  ])
  await passTime(holdfast, '1h')
  expect(await holdfast.jobs.result(id)).toBe('awake')
  expect(attempts).toEqual([1, 1])
  expect(cleanedUp).toEqual([expect.any(JobSuspendedError), undefined])
  // The transaction of the suspended attempt was rolled back, so the statement outside of a step took effect once.
  expect(await effects('sleep')).toEqual(['outside of a step'])
  expect(await holdfast.jobs.find(id)).toMatchObject({
    failed: 0,
    crashes: 0,
    steps: [{}, { endedAt: expect.any(String) }],
  })
  expect(ended).toEqual(['suspended'])
})

test('a suspended job stays suspended although its handler catches the error', async () => {
  const holdfast = await start('catches')
  const { id } = await run(holdfast, async (job) => {
    await job.sleep('1h').catch(() => {})
    await job.step('after', () => 1).catch(() => {})
    return 'not done'
  })
  const { steps } = await untilState(holdfast, id, 'waiting')
  expect(steps.map(({ name }) => name)).toEqual(['sleep'])
})

test('a sleeping job can be cancelled, and retry ends its sleep', async () => {
  const holdfast = await start('cancelled')
  const { id, definition } = await run(holdfast, async (job) => {
    await job.sleep(new Date(Date.now() + 3_600_000))
    return 'awake'
  })
  await untilState(holdfast, id, 'waiting')
  expect(await holdfast.jobs.cancel(id)).toBe(true)
  expect((await holdfast.jobs.find(id))?.state).toBe('cancelled')
  const other = await holdfast.jobs.enqueue(definition, null)
  await untilState(holdfast, other.id, 'waiting')
  expect(await holdfast.jobs.retry(other.id)).toBe(true)
  expect(await holdfast.jobs.result(other.id)).toBe('awake')
})

test('retry keeps the recorded steps, and deletes them with fromStart', async () => {
  const holdfast = await start('again')
  const calls: number[] = []
  let fails = true
  const { id } = await run(
    holdfast,
    async (job) => {
      await job.step('counted', () => calls.push(1))
      if (fails) throw new Error('no')
    },
    { attempts: 1 },
  )
  await untilState(holdfast, id, 'buried')
  await holdfast.jobs.retry(id)
  await until('the second attempt has failed', async () => (await holdfast.jobs.find(id))?.failures.length === 2)
  await untilState(holdfast, id, 'buried')
  expect(calls).toEqual([1])
  fails = false
  await holdfast.jobs.retry(id, { fromStart: true })
  await holdfast.jobs.result(id)
  expect(calls).toEqual([1, 1])
})

test('events are received in their order, whether they are sent before or after the job waits', async () => {
  const holdfast = await start('events')
  const { id, worker } = await run(holdfast, async (job) => [
    await job.event<number>('counted', { within: '1h' }),
    await job.event('counted', { within: '1h', step: 'second' }),
    await job.event('other', { within: '1h' }),
  ])
  await untilState(holdfast, id, 'waiting')
  expect(await holdfast.jobs.send(id, 'counted', 1, { key: 'a' })).toBe(true)
  // The key was used before, so this event is ignored.
  expect(await holdfast.jobs.send(id, 'counted', 'again', { key: 'a' })).toBe(true)
  await until('the job waits for the second event', async () => {
    const status = (await holdfast.jobs.find(id))!
    return status.state === 'waiting' && status.steps.length === 2
  })
  await until('the slot is free', () => worker.running === 0)
  // This event is early: the job waits for another one.
  expect(await holdfast.jobs.send(id, 'other')).toBe(true)
  await stays(
    'the job waits for the second event',
    async () => (await holdfast.jobs.find(id))!.state === 'waiting',
    300,
  )
  expect(await sql(fresh.url, `select holdfast.send($1, 'counted', '{"n": 2}') as sent`, [id])).toEqual([
    { sent: true },
  ])
  expect(await holdfast.jobs.result(id)).toEqual([1, { n: 2 }, null])
  expect(await holdfast.jobs.send(id, 'counted')).toBe(false)
  expect(await holdfast.jobs.send(999_999, 'counted')).toBe(false)
})

test('event returns undefined when the event does not arrive in time', async () => {
  const holdfast = await start('late')
  const { id } = await run(holdfast, async (job) => String(await job.event('approved', { within: 50 })))
  expect(await holdfast.jobs.result(id)).toBe('undefined')
})

test('an event of a transaction that commits after the job was suspended resumes the job', async () => {
  const holdfast = await start('open transaction')
  const [begun, opening] = [gate(), gate()]
  const { id } = await run(holdfast, async (job) => {
    await job.step('hold', async () => {
      begun.open()
      await opening.opened
    })
    return job.event('approved', { within: '1h' })
  })
  await begun.opened
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  expect(await holdfast.jobs.send(id, 'approved', 'yes', { tx: client })).toBe(true)
  opening.open()
  await until('the job waits for the transaction', async () => (await holdfast.jobs.find(id))!.steps.length === 2)
  await stays('the job is not suspended', async () => (await holdfast.jobs.find(id))!.state === 'running', 200)
  await client.query('commit')
  expect(await holdfast.jobs.result(id)).toBe('yes')
})

test.each([
  [
    'a duplicate name',
    DuplicateStepError,
    async (job: JobContext) => {
      await job.step('same', () => 1)
      await job.step('same', () => 2)
    },
  ],
  [
    'two sleeps without names',
    DuplicateStepError,
    async (job: JobContext) => {
      await job.sleep(0)
      await job.sleep(0)
    },
  ],
  ['a large result', StepLimitError, (job: JobContext) => job.step('large', () => 'x'.repeat(1_000_001))],
  [
    'too many steps',
    StepLimitError,
    async (job: JobContext) => {
      await job.step('first', ({ tx }) =>
        tx.query(
          `insert into holdfast.job_step (job, name, kind, fence, attempt, started_at, ended_at)
         select $1, 'known ' || n, 'step', 1, 1, now(), now() from generate_series(1, 999) as n`,
          [job.id],
        ),
      )
      // A later attempt reads these steps.
      if (job.attempt === 1) throw new Error('again')
      await job.step('one more', () => 1)
    },
  ],
] as const)('%s buries the job', async (name, type, handler) => {
  const holdfast = await start(name)
  const errors: unknown[] = []
  holdfast.on('job.failed', ({ error }) => errors.push(error))
  const { id } = await run(holdfast, handler)
  await untilState(holdfast, id, 'buried')
  expect(errors.at(-1)).toBeInstanceOf(type)
})

test('a step with a new kind, invalid arguments and a late step throw usage errors', async () => {
  const holdfast = await start('usage')
  const jobs: JobContext[] = []
  const errors: UsageError[] = []
  const { id } = await run(holdfast, async (job) => {
    jobs.push(job)
    if (job.attempt === 1) {
      await job.step('changed', () => 1)
      throw new Error('again')
    }
    const attempts = [
      () => job.cursor('changed', 1),
      () => job.step('', () => 1),
      () => job.step('no function', 1 as never),
      () => job.sleep('soon' as never),
      () => job.event('approved', {} as never),
    ]
    for (const attempt of attempts) errors.push(await caught(UsageError, attempt))
  })
  await holdfast.jobs.result(id)
  errors.push(await caught(UsageError, () => jobs[1]!.step('late', () => 1)))
  expect(errors.map(({ message }) => message)).toEqual([
    expect.stringContaining('has a step with this name'),
    expect.stringContaining('Expected step to be a string of 1 to'),
    expect.stringContaining('Expected job.step to get a function'),
    expect.stringContaining('Expected job.sleep to get a duration'),
    expect.stringContaining('the option within'),
    'The attempt of this step has ended',
  ])
  await caught(PayloadTooLargeError, () => holdfast.jobs.send(id, 'large', 'x'.repeat(100_001)))
})

test('steps and events are deleted with the history of their job', async () => {
  const holdfast = await start('history')
  const { id } = await run(holdfast, async (job) => {
    await job.step('kept', () => 1)
    return job.event('approved', { within: '1h' })
  })
  await untilState(holdfast, id, 'waiting')
  await holdfast.jobs.send(id, 'approved')
  await holdfast.jobs.result(id)
  const rows = async () => {
    const [row] = await sql<{ steps: number; events: number }>(
      fresh.url,
      `select (select count(*)::integer from holdfast.job_step where job = $1) as steps,
         (select count(*)::integer from holdfast.job_event where job = $1) as events`,
      [id],
    )
    return row!
  }
  await sql(fresh.url, "update holdfast.job_step set ended_at = now() - interval '9 days' where job = $1", [id])
  await sql(fresh.url, "update holdfast.job_event set sent_at = now() - interval '9 days' where job = $1", [id])
  await sql(fresh.url, 'select holdfast.job_roll_partitions(7)')
  expect(await rows()).toEqual({ steps: 2, events: 1 })
  await sql(fresh.url, 'delete from holdfast.job where id = $1', [id])
  await sql(fresh.url, 'select holdfast.job_roll_partitions(7)')
  expect(await rows()).toEqual({ steps: 0, events: 0 })
})

test('two waits for the same event never take the same event', async () => {
  const holdfast = await start('two waits')
  const blocked = gate()
  const { id } = await run(holdfast, () => blocked.opened)
  await untilState(holdfast, id, 'running')
  await holdfast.jobs.send(id, 'vote', 1)
  await holdfast.jobs.send(id, 'vote', 2)
  const [claim] = await sql<{ fence: string }>(fresh.url, 'select fence from holdfast.claim where $1 = any(ids)', [id])
  const sessions = await Promise.all(['a', 'b'].map(() => sqlSession(fresh.url)))
  const wait = (at: number) =>
    sessions[at]!.query<{ state: string; result: unknown }>(
      "select state, result from holdfast.job_wait($1, $2, $3, 'event', 1, 'vote', 60000, null)",
      [id, claim!.fence, `wait ${at}`],
    )
  await sessions[0]!.query('begin')
  const first = await wait(0)
  const second = wait(1)
  await until('the second wait is blocked by the first', async () => {
    const rows = await sql(
      fresh.url,
      "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%job_wait%'",
    )
    return rows.length === 1
  })
  await sessions[0]!.query('commit')
  expect([first.rows[0], (await second).rows[0]]).toEqual([
    { state: 'ended', result: 1 },
    { state: 'ended', result: 2 },
  ])
  blocked.open()
})

test('a second wait at the same time throws a usage error', async () => {
  const holdfast = await start('second wait')
  const errors: unknown[] = []
  const { id } = await run(holdfast, async (job) => {
    const first = job.event('approved', { within: '1h' })
    errors.push(await caught(UsageError, job.sleep('1h')))
    return first
  })
  await untilState(holdfast, id, 'waiting')
  expect(errors).toMatchObject([{ message: expect.stringContaining('both run at the same time') }])
  await holdfast.jobs.send(id, 'approved', 'yes')
  expect(await holdfast.jobs.result(id)).toBe('yes')
})

test('a suspended job with a new input starts immediately', async () => {
  const holdfast = await start('new input')
  const definition = defineJob('stepped', {
    run: async (input: string, job) => {
      if (input === 'old') await job.event('approved', { within: '7d' })
      return input
    },
  })
  work(holdfast, [definition])
  const { id } = await holdfast.jobs.enqueue(definition, 'old')
  await untilState(holdfast, id, 'waiting')
  await holdfast.jobs.update(id, { definition, input: 'new' })
  expect(await holdfast.jobs.result(id)).toBe('new')
})

test('the transaction of a step that hangs ends with its attempt', async () => {
  const holdfast = await start('hangs')
  await sql(fresh.url, "insert into public.effect values ('hangs', 'row')")
  const definition = defineJob('stepped', {
    timeout: '200ms',
    retry: { attempts: 2, backoff: 1 },
    run: (_: null, job) =>
      job.step('update', async ({ tx }) => {
        await tx.query(`update public.effect set what = 'attempt ${job.attempt}' where namespace = 'hangs'`)
        if (job.attempt === 1) await new Promise(() => {})
      }),
  })
  work(holdfast, [definition])
  const { id } = await holdfast.jobs.enqueue(definition, null)
  await until(
    'the job has ended',
    async () => ['done', 'buried'].includes((await holdfast.jobs.find(id))!.state),
    20_000,
  )
  expect(await effects('hangs')).toEqual(['attempt 2'])
})

test('the last value of a cursor counts towards the size limit after a failed advance', async () => {
  const holdfast = await start('cursor size')
  const { id } = await run(holdfast, async (job) => {
    const cursor = await job.cursor('value', '')
    await cursor.advance(() => 'x'.repeat(600_000))
    await caught(
      RangeError,
      cursor.advance(() => {
        throw new RangeError('fails')
      }),
    )
    const error = await caught(
      StepLimitError,
      job.step('large', () => 'y'.repeat(600_000)),
    )
    return error.code
  })
  expect(await holdfast.jobs.result(id)).toBe('STEP_LIMIT')
})

test('a cursor whose commit had no response is not advanced again in the same attempt', async () => {
  const holdfast = await start('unsure')
  const { database } = holdfast.context
  const { transaction } = database
  const lost = new DatabaseUnreachableError('the response was lost')
  Object.assign(database, {
    transaction: async (...given: Parameters<typeof transaction>) => {
      await transaction(...given)
      throw lost
    },
  })
  const { id } = await run(holdfast, async (job) => {
    const cursor = await job.cursor('position', 0)
    const advance = () =>
      cursor.advance(async ({ tx }) => {
        await tx.query(...insert('unsure', 'effect'))
        return cursor.value + 1
      })
    return [await advance().catch(String), await advance().catch(String)]
  })
  expect(await holdfast.jobs.result(id)).toEqual([String(lost), String(lost)])
  expect(await effects('unsure')).toEqual(['effect'])
})
