// Uses every room once, as a program of a user does: node everything.ts postgres://…   Also runs on other engines than Node.js.
import assert from 'node:assert/strict'
import { defineJob, Holdfast, implement } from 'holdfast'
import { drain } from 'holdfast/testing'

const url = process.argv.at(-1)!
const namespace = `everything ${Math.random()}`
const [a, b] = await Promise.all([Holdfast.open({ url, namespace }), Holdfast.open({ url, namespace })])
const passedRooms: string[] = []
const passed = (room: string) => passedRooms.push(room)

const lock = await a.locks.acquire('one')
assert.equal(await b.locks.tryAcquire('one'), null)
const waiting = b.locks.acquire('one', { wait: '10s' })
await lock.release()
const next = await waiting
assert.ok(next.held && next.fence > lock.fence)
await next.release()
passed('locks')

await a.leases.with('two', { ttl: '10s' }, async () =>
  assert.equal(await b.leases.tryAcquire('two', { ttl: '10s' }), null),
)
passed('leases')

await new Promise<void>((resolve) => a.elections.campaign('three', () => resolve()))
passed('elections')

await a.limits.with('four', { max: 1 }, async () => {
  await assert.rejects(
    b.limits.with('four', { max: 1 }, () => {}),
    { code: 'LIMIT_REACHED' },
  )
})
assert.equal(
  (await a.limits.consume('five', { rate: '2/min', cost: 3 }).catch(() => ({ allowed: false }))).allowed,
  false,
)
passed('limits')

const answers = await Promise.all(
  [a, b].map(({ once }) =>
    once.run('six', { wait: '10s' }, async ({ tx }) => (await tx.query('select 6 as six')).rows[0]),
  ),
)
assert.deepEqual(
  answers.map((answer) => answer.status !== 'in-progress' && answer.value),
  [{ six: 6 }, { six: 6 }],
)
assert.deepEqual(answers.map(({ status }) => status).sort(), ['done', 'replayed'])
passed('once')

const handled: string[] = []
await Promise.all([a, b].map(({ shares }) => shares.each('seven', ['x', 'y', 'z'], (one) => void handled.push(one))))
assert.deepEqual(handled.sort(), ['x', 'y', 'z'])
passed('shares')

await new Promise<void>((resolve) => a.schedules.add('eight', { every: '1s' }, () => resolve()))
passed('schedules')

const job = defineJob('nine', {
  run: async ({ n }: { n: number }, { tx }) =>
    (await tx.query<{ twice: number }>('select $1::integer * 2 as twice', [n])).rows[0]?.twice,
})
const definition = defineJob<{ n: number }, number>('ten')
const [twice, ten] = [await a.jobs.enqueue(job, { n: 21 }), await a.jobs.enqueue(definition, { n: 10 })]
await drain(b, [job, implement(definition, ({ n }) => n)])
assert.deepEqual([await a.jobs.result(twice), await a.jobs.result(ten)], [42, 10])
passed('jobs')

await Promise.all([a.drain({ within: '5s' }), b.close()])
await a.close()
console.log(passedRooms.join(' '))
