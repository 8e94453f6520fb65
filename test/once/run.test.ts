import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  ClosedError,
  DatabaseError,
  type Delivery,
  FingerprintMismatchError,
  HoldfastError,
  RecordedFailureError,
  UsageError,
} from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { countEffects, deliveries, effect, gate, makeEffects } from './effects.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await makeEffects(fresh.url)
})
afterAll(() => fresh.drop())

describe.each(['required', 'none'] as const)('once.run with anchor: %s', (anchor) => {
  const two = async () => {
    const [one, other] = [await open({ url: fresh.url, anchor }), await open({ url: fresh.url, anchor })]
    return { one: one.once, other: other.once }
  }
  const keyFor = (name: string) => `${anchor} ${name}`

  test('the first call runs the function, and later calls get its result', async () => {
    const { one, other } = await two()
    const key = keyFor('first')
    const answer = await one.run(key, async ({ tx, fence, signal, key: given }) => {
      expect(fence).toBeGreaterThan(0)
      expect(signal.aborted).toBe(false)
      expect(given).toBe(key)
      return { row: (await effect(tx, key)).rows[0] }
    })
    expect(answer).toEqual({ status: 'done', value: { row: { name: key } } })
    const unused = () => expect.unreachable('a duplicate ran')
    expect(await one.run(key, unused)).toEqual({ status: 'replayed', value: { row: { name: key } } })
    expect(await other.run(key, unused)).toEqual({ status: 'replayed', value: { row: { name: key } } })
    expect(await countEffects(fresh.url, key)).toBe(1)
  })

  test('a duplicate of a run in flight waits for its result, or returns in-progress', async () => {
    const { one, other } = await two()
    const key = keyFor('in flight')
    const opening = gate()
    const started = gate()
    const first = one.run(key, async () => {
      started.open()
      await opening.opened
      return 'first'
    })
    await started.opened
    for (const once of [one, other]) {
      expect(await once.run(key, () => 'second')).toEqual({ status: 'in-progress' })
      expect(await once.run(key, { wait: 50 }, () => 'second')).toEqual({ status: 'in-progress' })
    }
    const waiting = [one, one, other, other].map((once) => once.run(key, { wait: '10s' }, () => 'second'))
    opening.open()
    expect(await first).toEqual({ status: 'done', value: 'first' })
    for (const answer of await Promise.all(waiting)) expect(answer).toEqual({ status: 'replayed', value: 'first' })
  })

  test('one of 100 concurrent calls runs the function', async () => {
    const { one, other } = await two()
    const key = keyFor('many')
    const calls = Array.from({ length: 100 }, (_, i) =>
      (i % 2 ? one : other).run(key, { wait: '10s' }, async ({ tx }) => (await effect(tx, key)).rows.length),
    )
    const answers = await Promise.all(calls)
    expect(answers.filter(({ status }) => status === 'done')).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 'replayed')).toHaveLength(99)
    expect(await countEffects(fresh.url, key)).toBe(1)
  })

  test('a run that throws frees the key, undoes its effect and rejects with the same error', async () => {
    const { one, other } = await two()
    const key = keyFor('throws')
    const broken = new Error('broken')
    const failing = one.run(key, async ({ tx }) => {
      await effect(tx, key)
      throw broken
    })
    expect(await caught(Error, failing)).toBe(broken)
    expect(await deliveries(fresh.url, key)).toEqual([])
    expect(await other.run(key, async ({ tx }) => (await effect(tx, key)).rows.length)).toMatchObject({
      status: 'done',
    })
    expect(await countEffects(fresh.url, key)).toBe(1)
  })

  test('callers that wait for a run that throws run the function themselves', async () => {
    const { one, other } = await two()
    const key = keyFor('throws while others wait')
    const opening = gate()
    const first = one.run(key, async () => {
      await opening.opened
      throw new Error('broken')
    })
    first.catch(() => {})
    await until('the run is in flight', async () => (await deliveries(fresh.url, key)).length === 1)
    const waiting = [one, other].map((once, i) => once.run(key, { wait: '10s' }, () => i))
    opening.open()
    await caught(Error, first)
    const answers = await Promise.all(waiting)
    expect(answers.map(({ status }) => status).sort()).toEqual(['done', 'replayed'])
    expect(new Set(answers.map((answer) => 'value' in answer && answer.value)).size).toBe(1)
  })

  test('a recorded failure is replayed as a RecordedFailureError', async () => {
    const { one, other } = await two()
    const key = keyFor('recorded failure')
    const failure = Object.assign(new TypeError('no such invoice'), { code: 'NO_INVOICE' })
    const failing = one.run(key, { failures: 'record' }, async ({ tx }) => {
      await effect(tx, key)
      throw failure
    })
    expect(await caught(Error, failing)).toBe(failure)
    for (const once of [one, other]) {
      const error = await caught(
        RecordedFailureError,
        once.run(key, () => 'second'),
      )
      expect(error.message).toBe(`The first run of "${key}" failed: no such invoice`)
      expect(error).toMatchObject({
        code: 'ONCE_FAILED',
        retryable: false,
        key,
        failure: { name: 'TypeError', message: 'no such invoice', code: 'NO_INVOICE' },
        hint: 'Call once.forget(key) so that the next call runs the work again.',
      })
    }
    expect(await countEffects(fresh.url, key)).toBe(0)
    expect(await other.forget(key)).toBe(true)
    expect(await one.run(key, () => 'second')).toEqual({ status: 'done', value: 'second' })
  })

  test('a thrown value without a text, with a long text or with zero bytes is recorded', async () => {
    const { one, other } = await two()
    for (const [name, thrown, message] of [
      ['no text', Object.create(null), /^an object/],
      ['too much', new Error('x'.repeat(100_000)), /^x{4000}$/],
      ['zero bytes', 'a\0b', /^a\uFFFDb$/],
    ] as const) {
      const key = keyFor(name)
      const failing = one.run(key, { failures: 'record' }, () => Promise.reject(thrown))
      expect(await failing.catch((error) => error)).toBe(thrown)
      const { failure } = await caught(
        RecordedFailureError,
        other.run(key, () => 'second'),
      )
      expect(failure).toEqual({ name: 'Error', message: expect.stringMatching(message) })
    }
  })

  test('another fingerprint is an error, while the run is in flight and afterwards', async () => {
    const { one, other } = await two()
    const key = keyFor('fingerprint')
    const opening = gate()
    const first = one.run(key, { fingerprint: 'a' }, () => opening.opened.then(() => 1))
    await until('the run is in flight', async () => (await deliveries(fresh.url, key)).length === 1)
    const check = async () => {
      for (const once of [one, other]) {
        const error = await caught(
          FingerprintMismatchError,
          once.run(key, { fingerprint: 'b', wait: '5s' }, () => 2),
        )
        expect(error.message).toBe(`The key "${key}" has already been used with a different fingerprint`)
        expect(error).toMatchObject({ code: 'FINGERPRINT_MISMATCH', retryable: false, key })
      }
    }
    await check()
    opening.open()
    await first
    await check()
    expect(await other.run(key, { fingerprint: 'a' }, () => 2)).toEqual({ status: 'replayed', value: 1 })
    expect(await other.run(key, () => 2)).toEqual({ status: 'replayed', value: 1 })
  })

  test('a failed statement fails the run, also if the function catches the error', async () => {
    const { one } = await two()
    const key = keyFor('caught statement')
    const running = one.run(key, async ({ tx }) => {
      await effect(tx, key)
      await tx.query('select no_such_column').catch(() => {})
      return 'went on'
    })
    expect((await caught(DatabaseError, running)).sqlstate).toBe('25P02')
    expect(await deliveries(fresh.url, key)).toEqual([])
    expect(await countEffects(fresh.url, key)).toBe(0)
  })

  test('forget allows another run of a key, but has no effect during a run', async () => {
    const { one, other } = await two()
    const key = keyFor('forget')
    expect(await one.forget(key)).toBe(false)
    const opening = gate()
    const first = one.run(key, () => opening.opened.then(() => 1))
    await until('the run is in flight', async () => (await deliveries(fresh.url, key)).length === 1)
    expect(await other.forget(key)).toBe(false)
    opening.open()
    await first
    expect(await other.forget(key)).toBe(true)
    expect(await other.forget(key)).toBe(false)
    expect(await other.run(key, () => 2)).toEqual({ status: 'done', value: 2 })
  })
})

test.each<[string, unknown]>([
  ['undefined', undefined],
  ['null', null],
  ['false', false],
  ['zero', 0],
  ['an empty string', ''],
  ['a text with special characters', '\0 \u{1f600} \ud800 "quotes" \\ $1 {a,b}'],
  ['an object whose order counts', { b: 1, a: 2, 2: 'two', 1: 'one', '': null }],
  ['a nested object', { list: [1, [2, { three: [] }]], nothing: null }],
  ['a long text', 'x'.repeat(2_000_000)],
])('%s is replayed exactly, with node-postgres and postgres.js', async (name, value) => {
  const client = postgres(fresh.url, { max: 3, onnotice: () => {} })
  onTestFinished(() => client.end())
  const [byPg, byPostgresJs] = [await open({ url: fresh.url }), await open({ sql: client })]
  for (const [one, other] of [
    [byPg, byPostgresJs],
    [byPostgresJs, byPg],
  ] as const) {
    const key = `exactly ${name.toUpperCase()} ${one.id}`
    expect(await one.once.run(key, () => value)).toEqual({ status: 'done', value })
    const replayed = await other.once.run(key, () => 'second')
    expect(replayed).toEqual({ status: 'replayed', value })
    expect(JSON.stringify(replayed)).toBe(JSON.stringify({ status: 'replayed', value }))
    const inTransaction = `${key} in a transaction`
    await one.once.run(inTransaction, async ({ tx }) => {
      await effect(tx, inTransaction)
      return value
    })
    expect(await other.once.run(inTransaction, () => 'second')).toEqual({ status: 'replayed', value })
  }
})

const cycle: Record<string, unknown> = {}
cycle.self = cycle

test.each<[string, unknown, string]>([
  ['a bigint', { amount: 1n }, 'got 1 (bigint) at result.amount'],
  ['a cycle', cycle, 'got one that throws: Converting circular structure to JSON'],
  ['a function', () => 1, 'got a function'],
  ['a function inside', { deep: [() => 1] }, 'got a function at result.deep[0]'],
  ['a symbol', Symbol('s'), 'got Symbol(s) (symbol)'],
  ['a number that is no number', { share: Number.NaN }, 'got NaN (number) at result.share'],
])('%s is refused as a result before anything is committed', async (name, value, message) => {
  const { once } = await open({ url: fresh.url })
  const key = `no answer: ${name}`
  for (const failures of ['free', 'record'] as const) {
    const running = once.run(key, { failures }, async ({ tx }) => {
      await effect(tx, key)
      return value
    })
    const error = await caught(UsageError, running)
    expect(error.message).toContain(`Expected a result that JSON can represent, ${message}`)
    expect(await deliveries(fresh.url, key)).toEqual([])
    expect(await countEffects(fresh.url, key)).toBe(0)
  }
})

describe('invalid input of once.run', () => {
  const work = () => 1
  test.each<[string, unknown[], string]>([
    [
      'no key',
      [undefined, work],
      'Expected key to be a string of 1 to 500 characters without zero bytes, got undefined',
    ],
    ['an empty key', ['', work], 'Expected key to be a string of 1 to 500 characters'],
    ['a long key', ['x'.repeat(501), work], 'Expected key to be a string of 1 to 500 characters'],
    ['a key with a zero byte', ['a\0b', work], 'without zero bytes'],
    ['no function', ['key'], 'Expected the last argument of once.run to be a function, got undefined'],
    [
      'options after the function',
      ['key', work, { wait: '2s' }],
      'Expected the last argument of once.run to be a function, got an object (Object)',
    ],
    ['an unknown option', ['key', { retian: '1d' }, work], 'once.run has no option "retian": did you mean "retain"?'],
    [
      'a wait that is not a duration',
      ['key', { wait: 'soon' }, work],
      'Expected wait to be a duration of at least 0ms',
    ],
    ['a retain of 0', ['key', { retain: 0 }, work], 'Expected retain to be a duration of at least 1s'],
    ['an empty fingerprint', ['key', { fingerprint: '' }, work], 'Expected fingerprint to be a string of 1 to 500'],
    [
      'an unknown value of failures',
      ['key', { failures: 'keep' }, work],
      'Expected failures to be "free" or "record", got "keep"',
    ],
    [
      'options that are not an object',
      ['key', 5, work],
      'Expected the options of once.run to be an object, got 5 (number)',
    ],
  ])('%s is refused', async (_, args, message) => {
    const { once } = await open({ url: fresh.url })
    const error = await caught(UsageError, (once.run as (...args: unknown[]) => Promise<unknown>).apply(once, args))
    expect(error.message).toContain(message)
  })

  test('a key of 500 Unicode characters is accepted', async () => {
    const { once } = await open({ url: fresh.url })
    const key = '\u{1f600}é$'.repeat(125)
    await once.run(key, () => 1)
    expect(await once.run(key, () => 2)).toEqual({ status: 'replayed', value: 1 })
  })

  test('a query after the end of the run is refused', async () => {
    const { once } = await open({ url: fresh.url })
    let leakedTx: Delivery['tx'] | undefined
    await once.run('leaks its tx', ({ tx }) => {
      leakedTx = tx
    })
    const error = await caught(UsageError, leakedTx!.query('select 1'))
    expect(error.message).toBe('The transaction of this run has ended')
  })
})

test('the same key in two namespaces is independent', async () => {
  const [a, b] = [await open({ url: fresh.url, namespace: 'a' }), await open({ url: fresh.url, namespace: 'b' })]
  expect(await a.once.run('same', () => 'of a')).toEqual({ status: 'done', value: 'of a' })
  expect(await b.once.run('same', () => 'of b')).toEqual({ status: 'done', value: 'of b' })
  expect(await a.once.run('same', () => 'again')).toEqual({ status: 'replayed', value: 'of a' })
})

test('a later run of a key has a larger fence', async () => {
  const { once } = await open({ url: fresh.url })
  const fences: number[] = []
  for (let i = 0; i < 3; i++) {
    await caught(
      Error,
      once.run('fences', ({ fence }) => {
        fences.push(fence)
        throw new Error('again')
      }),
    )
  }
  expect(fences).toEqual([...fences].sort((a, b) => a - b))
  expect(new Set(fences).size).toBe(3)
})

test('locks of the same instance work in the transaction of a run', async () => {
  const [one, other] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
  await one.once.run('locks inside', async ({ tx }) => {
    await one.locks.inTransaction(tx, 'user:42', { wait: '1s' })
    expect(await other.locks.tryAcquire('user:42')).toBeNull()
    await using lock = await one.locks.acquire('guarded')
    await lock.guard(tx)
  })
  await other.locks.with('user:42', { wait: '5s' }, () => {})
})

test('aborting a wait does not affect the run in flight', async () => {
  const { once } = await open({ url: fresh.url })
  const opening = gate()
  const first = once.run('given up', () => opening.opened.then(() => 1))
  const abort = new AbortController()
  const waiting = once.run('given up', { wait: '20s', signal: abort.signal }, () => 2)
  abort.abort(new Error('changed my mind'))
  expect((await caught(Error, within(15_000, 'aborting the wait', waiting))).message).toBe('changed my mind')
  opening.open()
  expect(await first).toEqual({ status: 'done', value: 1 })
})

test('aborting a call works while another call with the same key has no response to its claim', async () => {
  const { once } = await open({ url: fresh.url })
  const blocker = await sqlSession(fresh.url)
  await blocker.query('begin')
  await blocker.query('lock table holdfast.delivery in access exclusive mode')
  const first = once.run('claiming', () => 'first')
  const abort = new AbortController()
  const second = once.run('claiming', { signal: abort.signal }, () => 'second')
  const reason = new Error('changed my mind')
  abort.abort(reason)
  await expect(within(2_000, 'The aborted call', second)).rejects.toBe(reason)
  await blocker.query('rollback')
  expect(await first).toEqual({ status: 'done', value: 'first' })
})

test('a claim does not wait for the open transaction of a dead run, and the key is free after its rollback', async () => {
  const { once } = await open({ url: fresh.url })
  await sql(
    fresh.url,
    `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, started_at, expires_at)
     values ('default', 'dead run', 'in-flight', 'dead run', 999999, 'dead', 1, now(), now() + interval '1 day')`,
  )
  const dying = await sqlSession(fresh.url)
  await dying.query('begin')
  await dying.query(`update holdfast.delivery set state = 'done' where key = 'dead run'`)
  const work = () => 'run'
  expect(await within(4_000, 'The call', once.run('dead run', work))).toEqual({ status: 'in-progress' })
  const batch = Promise.all([once.run('dead run', work), once.run('next to a dead run', work)])
  expect(await within(4_000, 'The batch', batch)).toEqual([{ status: 'in-progress' }, { status: 'done', value: 'run' }])
  await dying.query('rollback')
  expect(await once.run('dead run', { wait: '5s' }, work)).toEqual({ status: 'done', value: 'run' })
})

test('a result that PostgreSQL rejects frees its key, and results in the same batch are recorded', async () => {
  const { once } = await open({ url: fresh.url })
  await sql(
    fresh.url,
    `create function reject_result() returns trigger language plpgsql as $$
       begin
         raise exception 'rejected' using errcode = '54001';
       end
     $$;
     create trigger rejects before update on holdfast.delivery
       for each row when (new.value::text = '"rejected"') execute function reject_result()`,
  )
  onTestFinished(async () => {
    await sql(fresh.url, 'drop function reject_result cascade')
  })
  const opening = gate()
  let started = 0
  const runs = ['rejected', 'recorded'].map((value) =>
    once.run(`${value} result`, async () => {
      started++
      await opening.opened
      return value
    }),
  )
  await until('both runs have started', () => started === 2)
  opening.open()
  expect(await Promise.allSettled(runs)).toMatchObject([
    { status: 'rejected', reason: { sqlstate: '54001' } },
    { status: 'fulfilled', value: { status: 'done', value: 'recorded' } },
  ])
  expect(await once.run('rejected result', () => 'next')).toEqual({ status: 'done', value: 'next' })
  expect(await once.run('recorded result', () => 'next')).toEqual({ status: 'replayed', value: 'recorded' })
})

test('500 concurrent runs of different keys all return their results', async () => {
  const { once } = await open({ url: fresh.url })
  const keys = Array.from({ length: 500 }, (_, i) => `batch ${i}`)
  const answers = await Promise.all(keys.map((key) => once.run(key, () => key)))
  expect(answers.map((answer) => 'value' in answer && answer.value)).toEqual(keys)
  const again = await Promise.all(keys.map((key) => once.run(key, () => 'second')))
  expect(again.map((answer) => 'value' in answer && answer.value)).toEqual(keys)
})

describe('close', () => {
  test('close waits for the runs in flight', async () => {
    const instance = await open({ url: fresh.url })
    const opening = gate()
    const started = gate()
    const running = instance.once.run('closing', async ({ tx }) => {
      started.open()
      await opening.opened
      await effect(tx, 'closing')
      return 1
    })
    await started.opened
    const closing = instance.close()
    await caught(
      ClosedError,
      instance.once.run('another', () => 1),
    )
    opening.open()
    expect(await running).toEqual({ status: 'done', value: 1 })
    await closing
    expect(await countEffects(fresh.url, 'closing')).toBe(1)
  })

  test('close gives up a run after the expiry, and another instance can run the key', async () => {
    const [instance, other] = [await open({ url: fresh.url, expiry: '2s' }), await open({ url: fresh.url })]
    let reason: unknown
    const running = instance.once.run('closed upon', ({ signal }) => {
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason
          reject(signal.reason)
        })
      })
    })
    const failing = caught(HoldfastError, running)
    await until('the run is in flight', async () => (await deliveries(fresh.url, 'closed upon')).length === 1)
    await within(10_000, 'close', instance.close())
    expect(await failing).toMatchObject({ code: 'ONCE_LOST', key: 'closed upon' })
    expect(reason).toMatchObject({ message: 'The run of "closed upon" was lost: This instance is closed' })
    expect(await other.once.run('closed upon', { wait: '5s' }, () => 2)).toEqual({ status: 'done', value: 2 })
  })
})

test('results are flushed to disk also for a role with synchronous_commit=off', async () => {
  const url = new URL(fresh.url)
  url.searchParams.set('options', '-c synchronous_commit=off')
  const { once } = await open({ url: url.href })
  let settings: unknown
  await once.run('flushed', async ({ tx }) => {
    settings = (await tx.query('show synchronous_commit')).rows
  })
  expect(settings).toEqual([{ synchronous_commit: 'off' }])
  await sql(fresh.url, 'create table holdfast.flushing (setting text)')
  await sql(
    fresh.url,
    `create function note_flushing() returns trigger language plpgsql as
     $$ begin insert into holdfast.flushing values (new.state || ' ' || current_setting('synchronous_commit')); return null; end $$;
     create trigger note_flushing after insert or update on holdfast.delivery for each row execute function note_flushing()`,
  )
  await once.run('flushed 2', () => 1)
  await once.run('flushed 3', async ({ tx }) => (await tx.query('select 1')).rows)
  await sql(fresh.url, 'drop function note_flushing cascade')
  expect(await sql(fresh.url, 'select setting from holdfast.flushing')).toEqual([
    { setting: 'in-flight off' },
    { setting: 'done on' },
    { setting: 'in-flight off' },
    { setting: 'done on' },
  ])
})
