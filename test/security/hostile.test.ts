// Passes hostile names and payloads to every room. Each name and payload works and comes back unchanged, or a typed error refuses it before
// anything is written.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defineJob, type Holdfast, HoldfastError, UsageError } from '../../src/index.js'
import { run } from '../cli/program.js'
import { work } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { randomFrom, randomName, seed as seedOf } from '../setup/random.js'

let database: FreshDatabase
let url: string
let untouched: unknown
beforeAll(async () => {
  database = await freshDatabase()
  url = database.url
  await sql(url, 'create table public.victim (a integer); insert into public.victim values (42)')
  untouched = await catalog()
})
afterAll(async () => {
  expect(await catalog()).toEqual(untouched)
  await database.drop()
})

/** Reads the state that an injection would change. */
const catalog = () =>
  sql(
    url,
    `select count(*)::int as things, (select sum(a)::int from public.victim) as victim, current_setting('search_path') as path
            from pg_class where relnamespace = 'holdfast'::regnamespace and relname !~ '^job(_end|_stopped)?_\\d'`,
  )

const names = [
  "'; drop table public.victim; --",
  '"; drop table public.victim; --',
  "\\'; drop table public.victim; --",
  '$$; drop table public.victim; $$',
  "x', 'y'); truncate public.victim; --",
  '$1',
  '%s %I %L %n',
  '{a,b}',
  '(1,2)',
  'NULL',
  'null',
  '',
  ' ',
  '\t\n\r',
  'a b',
  '--help',
  '-',
  '../../etc/passwd',
  '<script>alert(1)</script>',
  '\u202egnp.exe',
  '\u0001\u001b[31m\u0007',
  '\u200b',
  'a\\',
  'a,b',
  'a;b',
  'a:b/c#d',
  '__proto__',
  'constructor',
  'toString',
  'é'.normalize('NFD'),
  '🚀'.repeat(250),
  'x'.repeat(500),
  'release 42',
  'jobs',
].filter((name) => name !== '')
const invalidNames: unknown[] = [
  '',
  'a\0b',
  'half \ud800',
  '\udc00',
  'x'.repeat(501),
  null,
  undefined,
  42,
  {},
  [],
  Symbol('x'),
  () => 'x',
  { toString: () => 'x' },
]

const seed = seedOf()
const random = randomFrom(seed)
const atRandom = Array.from({ length: 6 }, () => randomName(random, 200))
const all = [...names, ...atRandom]

let holdfast: Holdfast
async function member(namespace: string): Promise<Holdfast> {
  return open({ url, namespace })
}

test(`locks, leases, limits and once accept every name unchanged (HOLDFAST_SEED=${seed})`, {
  timeout: 120_000,
}, async () => {
  // A namespace is also a name.
  holdfast = await member("'; drop table public.victim; --")
  const { namespace } = holdfast
  const client = await sqlSession(url)
  await Promise.all(
    all.map(async (name) => {
      const lock = await holdfast.locks.acquire(name)
      expect([name, lock.names, await holdfast.locks.tryAcquire(name, { mode: 'shared' }).catch(() => null)]).toEqual([
        name,
        [name],
        null,
      ])
      const [key] = await sql<{ key: string }>(url, 'select holdfast.lock_key($1, $2)::text as key', [namespace, name])
      expect([name, lock.keys]).toEqual([name, [key!.key]])
      await lock.release()
      const lease = await holdfast.leases.acquire(name)
      expect([name, lease.name]).toEqual([name, name])
      await lease.release()
      const permit = await holdfast.limits.acquire(name.slice(0, 480), { max: 1 })
      expect((await holdfast.limits.usage(name.slice(0, 480))).inUse).toBe(1)
      await permit.release()
      expect(await holdfast.once.run(name, () => name)).toEqual({ status: 'done', value: name })
      expect(await holdfast.once.run(name, () => 'other')).toEqual({ status: 'replayed', value: name })
    }),
  )
  await client.query('begin')
  for (const name of all) await holdfast.locks.inTransaction(client, name)
  await client.query('rollback')
  // Names are registered in the background.
  await until('every name is registered unchanged', async () => {
    const rows = await sql<{ label: string }>(url, 'select label from holdfast.name where namespace = $1', [namespace])
    const labels = new Set(rows.map(({ label }) => label))
    return all.every((name) => labels.has(name))
  })
  const keys = await sql<{ key: string }>(url, 'select key from holdfast.delivery where namespace = $1', [namespace])
  expect(keys.map(({ key }) => key).sort()).toEqual([...all].sort())
})

test('elections, shares, schedules and jobs accept every name unchanged', { timeout: 120_000 }, async () => {
  const holdfast = await member('__proto__')
  const some = all.filter((name) => name.length < 200)
  const leading = some.map((name) =>
    holdfast.elections.campaign(name, ({ signal }) => until('the campaign closes', () => signal.aborted)),
  )
  for (const name of some) {
    await until('the instance leads', async () => (await holdfast.elections.leader(name))?.instance === holdfast.id)
  }
  await Promise.all(leading.map((campaign) => campaign.close()))

  const resources: string[] = []
  for (const name of some.slice(0, 5)) {
    await holdfast.shares.each(
      name,
      some,
      {
        round: name,
        concurrency: 50,
      },
      (resource) => void resources.push(resource),
    )
  }
  expect(resources.sort()).toEqual(some.flatMap((name) => Array(5).fill(name)).sort())

  for (const name of some) holdfast.schedules.add(name, { every: '1d' }, () => {})
  await until('all schedules are in the database', async () => (await holdfast.schedules.list()).length === some.length)
  expect((await holdfast.schedules.list()).map(({ name }) => name).sort()).toEqual([...some].sort())

  const jobs = some.map((name) => defineJob(name, { queue: name, lanes: { max: 1 }, run: (input: unknown) => input }))
  work(holdfast, jobs)
  const refs = await Promise.all(
    some.map((name, at) => holdfast.jobs.enqueue(jobs[at]!, { [name]: name }, { unique: name, lane: name })),
  )
  for (const [at, name] of some.entries()) {
    const id = refs[at]!.id
    expect([name, await holdfast.jobs.result(id, { wait: '30s' })]).toEqual([
      name,
      JSON.parse(JSON.stringify({ [name]: name })),
    ])
    expect(await holdfast.jobs.find(id)).toMatchObject({ kind: name, queue: name })
  }
})

test('an invalid name is refused in every room, and nothing is written', async () => {
  const holdfast = await member('no names')
  const echo = defineJob('echo', { run: () => {} })
  // This creates the queue.
  await holdfast.jobs.enqueue(echo, null)
  const rows = () =>
    sql(
      url,
      `select (select count(*) from holdfast.name) as names, (select count(*) from holdfast.delivery) as deliveries,
         (select count(*) from holdfast.queue) as queues, (select count(*) from holdfast.schedule) as schedules,
         (select count(*) from holdfast.waiting) as waiting, (select count(*) from holdfast.lease) as leases`,
    )
  const before = await rows()
  for (const given of invalidNames) {
    const name = given as string
    const calls: Record<string, () => unknown> = {
      lock: () => holdfast.locks.acquire(name),
      locks: () => holdfast.locks.acquire(['fine', name]),
      'lock in a transaction': async () => holdfast.locks.inTransaction(await sqlSession(url), name),
      space: () => holdfast.locks.space(name),
      lease: () => holdfast.leases.acquire(name),
      permit: () => holdfast.limits.acquire(name, { max: 1 }),
      rate: () => holdfast.limits.consume(name, { rate: '1/s' }),
      once: () => holdfast.once.run(name, () => 1),
      campaign: () => holdfast.elections.campaign(name, () => {}),
      leader: () => holdfast.elections.leader(name),
      share: () => holdfast.shares.each(name, ['a'], () => {}),
      resource: () => holdfast.shares.each('share', [name], () => {}),
      schedule: () => holdfast.schedules.add(name, { every: '1h' }, () => {}),
      kind: () => defineJob(name, { run: () => {} }),
      queue: () => given !== undefined && defineJob('kind', { queue: name, run: () => {} }),
      pause: () => holdfast.jobs.pause(name),
      lane: () =>
        given !== undefined &&
        holdfast.jobs.enqueue(defineJob('laned', { lanes: {}, run: () => {} }), null, { lane: name }),
      unique: () => typeof given === 'string' && holdfast.jobs.enqueue(echo, null, { delay: '1h', unique: name }),
      namespace: () => given !== undefined && open({ url, namespace: name }),
    }
    for (const [room, call] of Object.entries(calls)) {
      const error = await Promise.resolve()
        .then(call)
        .then(
          (result) => (result === false ? new UsageError('not tried') : 'accepted'),
          (failed: unknown) => failed,
        )
      expect([room, String(given?.toString()), error]).toEqual([
        room,
        String(given?.toString()),
        expect.any(UsageError),
      ])
    }
  }
  expect(await rows()).toEqual(before)
})

/** Returns a value with `depth` levels of nesting. */
function nested(depth: number): unknown {
  let value: unknown = 'deep'
  for (let at = 0; at < depth; at++) value = at % 2 ? [value] : { value }
  return value
}

const payloads: [string, unknown][] = [
  ['injection', { "'; drop table public.victim; --": '"; drop table public.victim; --' }],
  ['zero bytes and halves', { 'a\u0000': '\u0000', 'b\ud800': '\udc00' }],
  ['a prototype', JSON.parse('{"__proto__": {"admin": true}, "constructor": {"prototype": {"admin": true}}}')],
  ['numbers', [Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, Number.MIN_VALUE, 1e-300, -1e300, 0.1 + 0.2]],
  ['null', null],
  ['a text', 'NULL'],
  ['an empty key', { '': { '': [] } }],
  ['many keys', Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`k${n}`, n]))],
  ['400 levels', nested(400)],
  ['all of ASCII', String.fromCharCode(...Array.from({ length: 128 }, (_, n) => n))],
  ['composite and array literals', ['{1,2}', '(1,"2")', '\\x00', '$1', '%', 'a\\b']],
]
const invalidPayloads: [string, unknown][] = [
  ['NaN', { n: Number.NaN }],
  ['infinity', [Number.POSITIVE_INFINITY]],
  ['bigint', { n: 1n }],
  ['a function', { f: () => {} }],
  ['a symbol', { s: Symbol('s') }],
  ['100000 levels', nested(100_000)],
  [
    'a cycle',
    (() => {
      const cycle: unknown[] = []
      cycle.push(cycle)
      return cycle
    })(),
  ],
  [
    'a getter that throws',
    {
      get boom() {
        throw new Error('boom')
      },
    },
  ],
]

describe('payloads', () => {
  test('payloads come back unchanged as inputs and results of jobs and as results of once', {
    timeout: 60_000,
  }, async () => {
    const holdfast = await member('payloads')
    const echo = defineJob('echo', { run: (input: unknown) => input })
    work(holdfast, [echo])
    for (const [what, payload] of payloads) {
      const { id } = await holdfast.jobs.enqueue(echo, payload)
      expect([what, await holdfast.jobs.result(id, { wait: '30s' })]).toEqual([what, payload])
      const [once, again] = [await holdfast.once.run(what, () => payload), await holdfast.once.run(what, () => 'other')]
      expect([what, once.status, again.status]).toEqual([what, 'done', 'replayed'])
      expect([what, 'value' in again && again.value]).toEqual([what, payload])
    }
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
  })

  test('payloads that JSON cannot represent are refused, and nothing is written', async () => {
    const holdfast = await member('no payloads')
    const echo = defineJob('echo', { run: (input: unknown) => input })
    for (const [what, payload] of invalidPayloads) {
      await expect(holdfast.jobs.enqueue(echo, payload), what).rejects.toBeInstanceOf(UsageError)
      await expect(holdfast.jobs.enqueueMany(echo, ['fine', payload]), what).rejects.toBeInstanceOf(UsageError)
    }
    expect(
      await sql(url, 'select from holdfast.job join holdfast.queue on queue = key where namespace = $1', [
        'no payloads',
      ]),
    ).toEqual([])
  })
})

test('a job whose handler throws an unusual value is buried, and its failure has a message', {
  timeout: 60_000,
}, async () => {
  const holdfast = await member('thrown')
  const thrown: unknown[] = [
    undefined,
    Object.create(null),
    Symbol('s'),
    Object.assign(new Error('x'), { name: 42, message: { a: 1 }, stack: 7 }),
    {
      toString() {
        throw new Error('no text')
      },
    },
    'zero \0, half \ud800',
  ]
  const thrower = defineJob('thrower', {
    retry: { attempts: 1 },
    run: (at: number) => {
      throw thrown[at]
    },
  })
  work(holdfast, [thrower])
  for (const at of thrown.keys()) {
    const { id } = await holdfast.jobs.enqueue(thrower, at)
    await until(`job ${at} is buried`, async () => (await holdfast.jobs.find(id))?.state === 'buried')
    expect((await holdfast.jobs.find(id))?.failures[0]?.message).toEqual(expect.any(String))
  }
})

test('the command line handles hostile arguments without an internal error or terminal escapes', {
  timeout: 120_000,
}, async () => {
  const env = { DATABASE_URL: url, HOLDFAST_YES: '1', HOLDFAST_NAMESPACE: "a'; drop table public.victim; --" }
  const hostile = [
    "'; drop table public.victim; --",
    '$(touch /tmp/pwned)',
    '`id`',
    '\u001b]0;title\u0007',
    '%n',
    '__proto__',
  ]
  for (const word of hostile) {
    for (const line of [
      ['lock', 'show', word],
      ['lease', 'show', word],
      ['limit', 'show', word],
      ['delivery', 'show', word],
      ['delivery', 'ls', '--prefix', word],
      ['queue', 'pause', word],
      ['schedule', 'show', word],
      ['instance', 'show', word],
      ['lock', 'ls', '--schema', word],
      ['job', 'show', word],
      ['job', 'ls', '--queue', word],
      ['job', 'add', word, word, JSON.stringify({ [word]: word })],
      ['job', 'add', 'default', 'echo', word],
      ['schedule', 'next', word],
      ['schedule', 'next', '* * * * *', '--timezone', word],
    ]) {
      const { status, stdout, stderr } = await run(line, env)
      expect([line, status]).toEqual([line, expect.toBeOneOf([0, 1, 2, 3])])
      expect([line, stderr]).toEqual([line, expect.not.stringMatching(/INTERNAL|\n\s+at /)])
      expect([line, `${stdout}${stderr}`]).toEqual([line, expect.not.stringContaining('\u001b]')])
    }
  }
  // A timer of Node fires immediately if its duration is too long.
  for (const line of ['top --interval 30d', 'lock run x --kill-after 30d -- true', 'work jobs.js --drain 30d']) {
    const { status, stderr } = await run(line.split(' '), env)
    expect([line, status, stderr]).toEqual([line, expect.toBeOneOf([2, 125]), expect.stringContaining('at most 24d')])
  }
})

test(`an instance survives hostile notifications, which any role may send (HOLDFAST_SEED=${seed})`, async () => {
  const holdfast = await member('hints')
  const lock = await holdfast.locks.acquire('held')
  const lease = await holdfast.leases.acquire('leased')
  const permit = await holdfast.limits.acquire('full', { max: 1 })
  const refused = holdfast.limits.acquire('full', { max: 1, wait: '20s' })
  holdfast.schedules.add('books', { every: '1h' }, () => {})
  holdfast.jobs.work([defineJob('echo', { run: () => {} })])
  const key = (of: { keys: readonly string[] }) => of.keys[0]!
  const [words, others] = [
    [
      'lease-released',
      'lease-expired',
      'permit-granted',
      'limit-reset',
      'jobs-ready',
      'jobs-running',
      'jobs-maintenance-due',
      'jobs-waiting',
      'jobs-cancel-requested',
      'schedule-changed',
      'schedule-run-requested',
      'schedule-stop-requested',
      'election-changed',
      'share-members-changed',
      'resource-released',
      'drain-requested',
      'nonsense',
      '__proto__',
      'constructor',
    ],
    [
      key(lock),
      holdfast.locks.key('leased'),
      holdfast.id,
      '0',
      '-1',
      '9999999999999999999999',
      'NaN',
      '1.1',
      '__proto__',
      "'; --",
      '{}',
      '',
      ' ',
      ...atRandom,
    ],
  ]
  const client = await sqlSession(url)
  for (const word of words) {
    for (const first of others) {
      const payload = `${word} ${first} ${others[Math.floor(random() * others.length)]} ${randomBytes(3).toString('hex')}`
      await client.query('select pg_notify($1, $2)', ['holdfast', payload.slice(0, 1_500)])
    }
    await client.query('select pg_notify($1, $2)', ['holdfast', word])
  }
  // PostgreSQL delivers notifications in order, so the instance has received all of them when it receives this one.
  await client.query('select pg_notify($1, $2)', ['holdfast', `lock-release-requested ${key(lock)} ${holdfast.id}`])
  await until('the holder receives the release request', () => lock.signal.aborted)
  expect([lock.held, lease.held, permit.held, holdfast.draining.aborted]).toEqual([true, true, true, false])
  expect(lease.signal.aborted).toBe(false)
  await permit.release()
  await (await refused).release()
  expect((await holdfast.health()).status).toBe('up')
  expect(await caught(HoldfastError, holdfast.locks.acquire('')).then(({ code }) => code)).toBe('USAGE')
})
