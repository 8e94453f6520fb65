import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { expiryMs, openDatabase, openProxy } from './fixture.js'

// postgres.js cannot abandon a connection. Silent connections stay in the user's pool and fill it, so Holdfast must not depend on this pool.

test.each(['required', 'none'] as const)(
  'rounds and keys continue over other connections when all connections of postgres.js are silent (anchor: %s)',
  { timeout: 90_000 },
  async (anchor) => {
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const sql = postgres(proxy.through(url), { max: 2, onnotice() {} })
    onTestFinished(() => sql.end({ timeout: 0 }))
    const holdfast = await Holdfast.open({ sql, expiry: expiryMs, anchor, log: false })
    onTestFinished(() => holdfast.close())
    const [first] = await Promise.all([
      holdfast.shares.each('before', ['a', 'b'], () => {}),
      Promise.all([sql`select pg_sleep(0.2)`, sql`select pg_sleep(0.2)`]),
    ])
    expect(first.done.sort()).toEqual(['a', 'b'])
    proxy.silence('to-client', 'to-server')

    const { done } = await within(
      30_000,
      'The round',
      holdfast.shares.each('after', ['a', 'b'], () => {}),
    )
    expect(done.sort()).toEqual(['a', 'b'])
    const paid = holdfast.once.run('paid', ({ tx }) => tx.query('create table paid ()'))
    expect(await within(20_000, 'The delivery', paid)).toMatchObject({ status: 'done' })
    expect(await witness.query("select from pg_class where relname = 'paid'")).toHaveLength(1)
  },
)

test('jobs end although transactions of postgres.js do not start or get no response to their commit', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const sql = postgres(proxy.through(url), { max: 2, onnotice() {} })
  onTestFinished(() => sql.end({ timeout: 0 }))
  const holdfast = await Holdfast.open({ sql, expiry: expiryMs, log: false })
  onTestFinished(() => holdfast.close())
  await witness.query('create table effect (id bigint)')
  const ran: number[] = []
  const write = defineJob('write', {
    async run(_: null, { id, tx }) {
      ran.push(id)
      await tx.query('insert into effect (id) values ($1)', [id])
    },
  })
  await Promise.all([sql`select pg_sleep(0.2)`, sql`select pg_sleep(0.2)`])
  const swallowed = proxy.swallowReplyTo('commit')
  holdfast.jobs.work([write])
  const first = await holdfast.jobs.enqueue(write, null)
  await within(10_000, 'The commit', swallowed)
  proxy.silence('to-client', 'to-server')
  const others = await Promise.all([1, 2, 3].map(() => holdfast.jobs.enqueue(write, null).catch(() => undefined)))
  const ids = [first, ...others].flatMap((ref) => ref?.id ?? [])
  await until(
    'all jobs have ended',
    async () => (await witness.query('select from holdfast.job_live')).length === 0 && ran.length >= ids.length,
    30_000,
  )
  const effects = await witness.query<{ id: string }>('select id from effect')
  expect(new Set(effects.map(({ id }) => id)).size).toBe(effects.length)
  await until('no claim is left', async () => (await witness.query('select from holdfast.claim')).length === 0)
}, 60_000)
