// After an asynchronous failover the new primary knows neither the last fences that were drawn nor who holds what.
import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { sql, sqlSession, until, within } from '../setup/facts.js'
import { catchUp, promote } from '../setup/pair.js'
import { cutOff, type Fixture, openFixture } from './failover-fixture.js'
import { expiryMs, openInstance } from './fixture.js'

/** Fences that the standby has never heard of. */
async function drawUnheard({ locks }: Holdfast, stage: Fixture): Promise<number> {
  await catchUp(stage.pair)
  cutOff(stage.stream)
  let last = 0
  // A sequence is logged 32 values ahead.
  for (let draw = 0; draw < 100; draw++)
    await locks.with('drawn', ({ fence }) => {
      last = fence
    })
  return last
}

/** The primary is gone with what it had drawn last, and its standby is in its place. */
async function failOver(): Promise<{ stage: Fixture; last: number }> {
  const stage = await openFixture()
  const last = await drawUnheard(await openInstance(stage.primaryUrl), stage)
  await stage.pair.primary.stop('immediate')
  await promote(stage.pair)
  return { stage, last }
}

test.each([
  ['one name', ['drawn']],
  ['two names', ['drawn', 'another']],
])(
  'the first to draw on the new primary is a transaction, for %s, beside an instance without an anchor',
  async (_, names) => {
    const { stage, last } = await failOver()
    const next = await openInstance(stage.standbyUrl, { anchor: 'none', migrate: false })
    const client = await sqlSession(stage.standbyUrl)
    await client.query('begin')
    // Longer than the expiry of the one who was there before, for which it has to wait.
    const lock = await next.locks.inTransaction(client, names, { wait: 2 * expiryMs + 1_000 })
    expect(lock.fence).toBeGreaterThan(last)
    await client.query('commit')
  },
)

test('a transaction is not let in either as long as a holder that was cut off may believe', async () => {
  const stage = await openFixture()
  const old = await openInstance(stage.clients.through(stage.primaryUrl))
  const held = await old.locks.acquire('x')
  await catchUp(stage.pair)
  cutOff(stage.clients, stage.stream)
  await promote(stage.pair)
  const next = await openInstance(stage.standbyUrl, { anchor: 'none', migrate: false })
  const client = await sqlSession(stage.standbyUrl)
  await client.query('begin')
  const granted = async () => {
    const lock = await next.locks.tryInTransaction(client, 'x')
    // In the moment of the grant.
    if (lock) expect(held.signal.aborted).toBe(true)
    return lock
  }
  expect((await until('it is granted', granted, 4 * expiryMs)).fence).toBeGreaterThan(held.fence)
})

test.each<[string, (instance: Holdfast) => Promise<number>]>([
  ['lease', async ({ leases }) => (await leases.acquire('drawn', { wait: '20s' })).fence],
  ['permit', ({ limits }) => limits.with('drawn', { max: 1, wait: '20s' }, ({ fence }) => fence)],
])('the first to draw on the new primary is a %s', async (_, draw) => {
  const { stage, last } = await failOver()
  const next = await openInstance(stage.standbyUrl, { anchor: 'none', migrate: false })
  expect(await within(20_000, 'The first draw', draw(next))).toBeGreaterThan(last)
  expect(await sql(stage.standbyUrl, 'select timeline from holdfast.server_generation')).toEqual([{ timeline: 2 }])
})

test('job ids that the new primary has never heard of are not given again', async () => {
  const stage = await openFixture()
  const enqueue = async (url: string) => {
    const [row] = await sql<{ id: string }>(url, "select holdfast.enqueue('default', 'mail', '{}') as id")
    return Number(row!.id)
  }
  const old = await openInstance(stage.primaryUrl)
  await enqueue(stage.primaryUrl)
  await catchUp(stage.pair)
  cutOff(stage.stream)
  let last = 0
  // A sequence is logged 32 values ahead.
  for (let draw = 0; draw < 100; draw++) last = await enqueue(stage.primaryUrl)
  await old.close()
  await stage.pair.primary.stop('immediate')
  await promote(stage.pair)
  expect(await enqueue(stage.standbyUrl)).toBeGreaterThan(last)
})
