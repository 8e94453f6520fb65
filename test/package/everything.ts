// Every room once, as a program of a stranger's: node everything.ts postgres://…   Also for engines other than Node.js.
import assert from 'node:assert/strict'
import { defineJob, Holdfast } from 'holdfast'
import { drain } from 'holdfast/testing'

const url = process.argv.at(-1)!
const namespace = `everything ${Math.random()}`
const [a, b] = await Promise.all([Holdfast.open({ url, namespace }), Holdfast.open({ url, namespace })])
const seen: string[] = []
const saw = (what: string) => seen.push(what)

const lock = await a.locks.acquire('one')
assert.equal(await b.locks.tryAcquire('one'), null)
const waiting = b.locks.acquire('one', { wait: '10s' })
await lock.release()
const next = await waiting
assert.ok(next.held && next.fence > lock.fence)
await next.release()
saw('locks')

await a.leases.with('two', { ttl: '10s' }, async () =>
  assert.equal(await b.leases.tryAcquire('two', { ttl: '10s' }), null),
)
saw('leases')

await new Promise<void>((resolve) => a.elections.campaign('three', () => resolve()))
saw('elections')

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
saw('limits')

const answers = await Promise.all(
  [a, b].map(({ once }) =>
    once.run('six', async ({ tx }) => (await tx.query('select 6 as six')).rows[0], { wait: '10s' }),
  ),
)
assert.deepEqual(
  answers.map((answer) => answer.status !== 'in-progress' && answer.value),
  [{ six: 6 }, { six: 6 }],
)
assert.deepEqual(answers.map(({ status }) => status).sort(), ['done', 'replayed'])
saw('once')

const worked: string[] = []
await Promise.all([a, b].map(({ shares }) => shares.each('seven', ['x', 'y', 'z'], (one) => void worked.push(one))))
assert.deepEqual(worked.sort(), ['x', 'y', 'z'])
saw('shares')

await new Promise<void>((resolve) => a.schedules.add('eight', { every: '1s' }, () => resolve()))
saw('schedules')

const job = defineJob('nine', {
  run: async ({ n }: { n: number }, { tx }) =>
    (await tx.query<{ twice: number }>('select $1::integer * 2 as twice', [n])).rows[0]?.twice,
})
const { id } = await a.jobs.enqueue(job, { n: 21 })
await drain(b, [job])
assert.equal(await a.jobs.result(id), 42)
saw('jobs')

await Promise.all([a.drain({ within: '5s' }), b.close()])
await a.close()
console.log(seen.join(' '))
