// Every room that takes names, the command line and SQL refuse a name that was built from a missing value.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findMissingValue } from '../../src/base/index.js'
import { idempotent, webhooks } from '../../src/http/index.js'
import { defineJob, defineSchedule, Holdfast, UsageError } from '../../src/index.js'
import { run } from '../cli/program.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let database: FreshDatabase
let holdfast: Holdfast
beforeAll(async () => {
  database = await freshDatabase()
  holdfast = await Holdfast.open({ url: database.url })
})
afterAll(async () => {
  await holdfast.close()
  await database.drop()
})

const job = defineJob('named', { run: () => {} })
const nothing = () => {}
/** A name as a program builds it from a missing value. */
const id = undefined as unknown as string
const bad = `user:${id}`

const rooms: Record<string, () => unknown> = {
  'locks.acquire': () => holdfast.locks.acquire(bad),
  'locks.acquire of several': () => holdfast.locks.acquire(['a', bad]),
  'locks.tryAcquire': () => holdfast.locks.tryAcquire(bad),
  'locks.with': () => holdfast.locks.with(bad, nothing),
  'locks.key': () => holdfast.locks.key(bad),
  'locks.space': () => holdfast.locks.space(bad),
  'locks.inTransaction': () => holdfast.locks.inTransaction({ query: async () => ({ rows: [] }) } as never, bad),
  'leases.acquire': () => holdfast.leases.acquire(bad),
  'leases.tryAcquire': () => holdfast.leases.tryAcquire(bad),
  'leases.with': () => holdfast.leases.with(bad, nothing),
  'leases.release': () => holdfast.leases.release(bad, 'token'),
  'token of leases.acquire': () => holdfast.leases.acquire('with a token', { token: bad }),
  'token of leases.release': () => holdfast.leases.release('with a token', bad),
  'elections.campaign': () => holdfast.elections.campaign(bad, nothing),
  'elections.leader': () => holdfast.elections.leader(bad),
  'elections.watch': () => holdfast.elections.watch(bad).next(),
  'limits.acquire': () => holdfast.limits.acquire(bad, { max: 1 }),
  'limits.tryAcquire': () => holdfast.limits.tryAcquire(bad, { max: 1 }),
  'limits.with': () => holdfast.limits.with(bad, { max: 1 }, nothing),
  'limits.consume': () => holdfast.limits.consume(bad, { rate: '1/s' }),
  'limits.usage': () => holdfast.limits.usage(bad),
  'once.run': () => holdfast.once.run(bad, nothing),
  'once.inTransaction': () => holdfast.once.inTransaction({ query: async () => ({ rows: [] }) } as never, bad, nothing),
  'once.forget': () => holdfast.once.forget(bad),
  webhooks: () => webhooks(holdfast.once, { key: () => bad }).fetch(() => new Response())(post()),
  'the scope of idempotent': () => idempotent(holdfast.once, { scope: () => bad }).fetch(() => new Response())(post()),
  'shares.assign': () => holdfast.shares.assign(bad, ['a'], { onGained: nothing } as never),
  'a resource of shares.assign': () => holdfast.shares.assign('share', [bad], nothing as never),
  'shares.each': () => holdfast.shares.each(bad, ['a'], nothing as never),
  'round of shares.each': () => holdfast.shares.each('share', ['a'], { round: bad }, nothing),
  'a resource of shares.each': () => holdfast.shares.each('share', [bad], nothing as never),
  'schedules.add': () => holdfast.schedules.add(bad, { cron: '0 3 * * *' }, nothing),
  'was of schedules.add': () => holdfast.schedules.add('renamed', { cron: '0 3 * * *', was: bad } as never, nothing),
  'schedules.run': () => holdfast.schedules.run(bad),
  'schedules.pause': () => holdfast.schedules.pause(bad),
  'schedules.resume': () => holdfast.schedules.resume(bad),
  'schedules.override': () => holdfast.schedules.override(bad, null),
  'schedules.runs': () => holdfast.schedules.runs(bad),
  'schedules.find': () => holdfast.schedules.find(bad),
  defineSchedule: () => defineSchedule(bad, { cron: '0 3 * * *' }, nothing),
  defineJob: () => defineJob(bad, { run: nothing }),
  'queue of defineJob': () => defineJob('named', { queue: bad, run: nothing }),
  'lane of jobs.enqueue': () => holdfast.jobs.enqueue(job, null, { lane: bad }),
  'unique.key of jobs.enqueue': () => holdfast.jobs.enqueue(job, null, { unique: { key: bad } }),
  'unique.key of a function': () => holdfast.jobs.enqueueMany(job, [null], { unique: { key: () => bad } } as never),
  'queues of jobs.work': () => holdfast.jobs.work([job], { queues: [bad] }),
  'jobs.pause': () => holdfast.jobs.pause(bad),
  'jobs.resume': () => holdfast.jobs.resume(bad),
  'jobs.redrive': () => holdfast.jobs.redrive(bad),
  'namespace of Holdfast.open': () => Holdfast.open({ url: database.url, namespace: bad }),
  'schema of Holdfast.open': () => Holdfast.open({ url: database.url, schema: String(id) }),
}

/** Texts that a program passes as the content of a payload by mistake. */
const mistakes = ['undefined', 'NaN', '[object Object]', '[object Promise]']

test.each(mistakes)('a fingerprint %j is refused, because it would be the same for all payloads', async (content) => {
  const calls = {
    'once.run': () => holdfast.once.run('key', { fingerprint: content }, nothing),
    webhooks: () => webhooks(holdfast.once, { key: () => 'key', fingerprint: () => content }).fetch(respond)(post()),
  }
  for (const [what, call] of Object.entries(calls)) {
    const error = await caught(UsageError, call())
    expect(error.message, what).toContain(`the part "${content}" shows that`)
    expect(error.hint, what).toContain('a different payload would not be detected')
  }
})

test('a fingerprint may contain the word undefined', async () => {
  const fingerprint = '{"text":"undefined"}'
  expect((await holdfast.once.run('content', { fingerprint }, () => 1)).status).toBe('done')
  const events = webhooks(holdfast.once, { key: () => 'event', fingerprint: () => fingerprint })
  expect((await events.fetch(respond)(post())).status).toBe(200)
})

const respond = () => new Response()
const post = () => new Request('http://x/', { method: 'POST', body: '{}', headers: { 'idempotency-key': '"k"' } })

test.each(Object.entries(rooms))('%s refuses a name with a part that is undefined', async (_, call) => {
  const error = await caught(UsageError, async () => call())
  expect(error.message).toContain('the part "undefined" shows that a template literal interpolated')
})

test.each([Number.NaN, {}, Promise.resolve(1), new Date('soon')])(
  'once.run refuses a name with %s in it',
  async (value) => {
    const error = await caught(UsageError, holdfast.once.run(`event:${value}`, nothing))
    expect(error.message).toContain(`the part "${value}" shows that`)
  },
)

test('locks.pair and the numbers of key spaces refuse values that are not numbers', async () => {
  await caught(UsageError, async () => holdfast.locks.tryAcquire(holdfast.locks.pair(1, Number.NaN)))
  const space = await holdfast.locks.space('numbers')
  await caught(UsageError, async () => holdfast.locks.tryAcquire(space.at(id as never)))
})

describe('the command line', () => {
  test.each([
    [['lock', 'show', bad]],
    [['lock', 'run', bad, '--', 'true']],
    [['lock', 'ls', '--namespace', bad]],
    [['lease', 'show', bad]],
    [['limit', 'show', bad]],
    [['limit', 'reset', bad, '--yes']],
    [['delivery', 'show', bad]],
    [['delivery', 'forget', bad, '--yes']],
    [['delivery', 'show', 'k', '--namespace', bad]],
    [['queue', 'pause', bad]],
    [['queue', 'resume', bad]],
    [['job', 'retry', '--queue', bad, '--yes']],
    [['schedule', 'show', bad]],
    [['schedule', 'run', bad]],
    [['job', 'add', bad, 'kind']],
    [['job', 'add', 'queue', bad]],
    [['job', 'ls', '--queue', bad]],
  ])('holdfast %j refuses a name with a part that is undefined', async (args) => {
    const { status, stderr } = await run(args, { DATABASE_URL: database.url })
    expect(stderr).toContain('the part "undefined" shows that')
    expect(status).not.toBe(0)
  })
})

describe('holdfast.enqueue in SQL', () => {
  const enqueue = (names: {
    queue?: string
    kind?: string
    unique_key?: string
    lane?: string
    in_group?: string
    namespace?: string
  }) =>
    sql(
      database.url,
      `select holdfast.enqueue($1, $2, '1', unique_key => $3, lane => $4, in_group => $5, namespace => $6)`,
      [
        names.queue ?? 'q',
        names.kind ?? 'k',
        names.unique_key ?? null,
        names.lane ?? null,
        names.in_group ?? null,
        names.namespace ?? 'sql',
      ],
    )

  test.each(['queue', 'kind', 'unique_key', 'lane', 'in_group', 'namespace'])(
    'holdfast.enqueue refuses %s with a part that is undefined',
    async (what) => {
      const error = await caught(Error, enqueue({ [what]: bad }))
      expect(error.message).toMatch(
        /^Expected queue, kind, unique_key, lane, in_group and namespace to have a value in every part, got "/,
      )
      expect(error).toMatchObject({ code: '22023', hint: expect.stringContaining('A template literal') })
    },
  )

  test.each([
    'undefined',
    'a/undefined',
    'a b NaN',
    'x:[object Object]',
    'y[object Promise]z',
    'Invalid Date',
    'd:Invalid Date:e',
    'a-undefined',
    'undefined_',
    'NaNs',
    'invalid date',
    '[object]',
    'null',
    'user:null',
    'a\\undefined',
    '"NaN"',
  ])('holdfast.enqueue and the library agree about %j', async (kind) => {
    const isRefused = await enqueue({ kind }).then(
      () => false,
      () => true,
    )
    expect(isRefused).toBe(findMissingValue(kind) !== undefined)
  })
})

test('a client that sends "undefined" as its Idempotency-Key gets 400, and its request is not handled', async () => {
  const { once } = await open({ url: database.url })
  let handled = 0
  const handler = idempotent(once, { scope: () => 'ann' }).fetch(() => {
    handled++
    return new Response()
  })
  for (const key of ['undefined', 'order:NaN', '[object Object]']) {
    const headers = { 'idempotency-key': `"${key}"` }
    const response = await handler(new Request('http://x/', { method: 'POST', body: '{}', headers }))
    expect([key, response.status]).toEqual([key, 400])
    expect(await response.json()).toMatchObject({
      title: 'Idempotency-Key is not valid',
      detail: expect.stringContaining('which indicates a missing value'),
    })
  }
  expect(handled).toBe(0)
})
