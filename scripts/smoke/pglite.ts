// Uses every room on PGlite, which has one session: everything except session locks works, with anchor: 'none'.
// Started by .ci/pglite, in a project that contains the packed package and PGlite: node pglite.ts
import assert from 'node:assert/strict'
import { createPgConfig } from '@electric-sql/pglite/node-postgres'
import { defineJob, Holdfast } from 'holdfast'
import { drain, emptyQueues, passTime } from 'holdfast/testing'
import pg from 'pg'

const pool = new pg.Pool(createPgConfig())
const open = () => Holdfast.open({ pool, anchor: 'none', namespace: 'pglite' })
const passed = (text: string) => console.log(`ok  ${text}`)
console.log((await pool.query<{ version: string }>('select version()')).rows[0]!.version)

await assert.rejects(Holdfast.open({ pool }), { code: 'SESSION_LOCKS_UNAVAILABLE', reason: 'single-session' })
passed('an instance with an anchor is refused')

const [a, b] = [await open(), await open()]
await assert.rejects(a.locks.acquire('one'), { code: 'SESSION_LOCKS_UNAVAILABLE', reason: 'no-anchor' })
passed('session locks are refused')

const client = await pool.connect()
await client.query('begin')
const lock = await a.locks.inTransaction(client, 'one')
await client.query('commit')
client.release()
assert.ok(lock.fence > 0)
passed('locks.inTransaction')

const lease = await a.leases.acquire('two', { ttl: '10s' })
assert.equal(await b.leases.tryAcquire('two', { ttl: '10s' }), null)
const waiting = b.leases.acquire('two', { ttl: '10s', wait: '10s' })
await lease.release()
const next = await waiting
assert.ok(next.fence > lease.fence)
await next.release()
passed('leases')

await new Promise<void>((resolve) => a.elections.campaign('three', () => resolve()))
passed('elections')

await a.limits.with('four', { max: 1 }, () =>
  assert.rejects(
    b.limits.with('four', { max: 1 }, () => {}),
    { code: 'LIMIT_REACHED' },
  ),
)
assert.equal((await a.limits.consume('five', { rate: '2/min' })).allowed, true)
passed('limits')

const results = await Promise.all(
  [a, b].map(({ once }) =>
    once.run('six', { wait: '10s' }, async ({ tx }) => (await tx.query('select 6 as six')).rows[0]),
  ),
)
assert.deepEqual(results.map(({ status }) => status).sort(), ['done', 'replayed'])
passed('once')

const handled: string[] = []
await Promise.all([a, b].map(({ shares }) => shares.each('seven', ['x', 'y', 'z'], (one) => void handled.push(one))))
assert.deepEqual(handled.sort(), ['x', 'y', 'z'])
passed('shares')

await new Promise<void>((resolve) => a.schedules.add('eight', { every: '1s' }, () => resolve()))
passed('schedules')

const double = defineJob('nine', {
  run: async ({ n }: { n: number }, { tx }) =>
    (await tx.query<{ twice: number }>('select $1::integer * 2 as twice', [n])).rows[0]!.twice,
})
const count = 50
const worker = b.jobs.work([double])
const jobs = await Promise.all(Array.from({ length: count }, (_, n) => a.jobs.enqueue(double, { n })))
assert.deepEqual(
  await Promise.all(jobs.map((job) => a.jobs.result(job))),
  jobs.map((_, n) => 2 * n),
)
await worker.close()
passed(`jobs: ${count} at the same time, each with its own transaction`)

await a.jobs.enqueue(double, { n: 4 }, { delay: '1d' })
await passTime(a, '1d')
assert.deepEqual(
  (await drain(a, [double])).map(({ result }) => result),
  [8],
)
await emptyQueues(a)
passed('the test kit')

await Promise.all([a.drain({ within: '5s' }), b.drain({ within: '5s' })])
await Promise.all([a.close(), b.close()])
await pool.end()
console.log('closed')
