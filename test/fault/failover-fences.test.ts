// After an asynchronous failover, the new primary knows neither the last fences of the old primary nor its holders.
import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { sql, sqlSession, until, within } from '../setup/facts.js'
import { catchUp, promote } from '../setup/pair.js'
import { waysOf } from '../setup/variants.js'
import { cutOff, type Fixture, openFixture } from './failover-fixture.js'
import { expiryMs, openInstance } from './fixture.js'

/** Draws fences that the standby does not receive. Returns the last one. */
async function drawUnreplicated({ locks }: Holdfast, fixture: Fixture): Promise<number> {
  await catchUp(fixture.pair)
  cutOff(fixture.stream)
  let last = 0
  // PostgreSQL logs a sequence 32 values ahead.
  for (let draw = 0; draw < 100; draw++)
    await locks.with('drawn', ({ fence }) => {
      last = fence
    })
  return last
}

/** Stops a primary whose last fences the standby has not received, and promotes the standby. */
async function failOver(): Promise<{ fixture: Fixture; last: number }> {
  const fixture = await openFixture()
  const last = await drawUnreplicated(await openInstance(fixture.primaryUrl), fixture)
  await fixture.pair.primary.stop('immediate')
  await promote(fixture.pair)
  return { fixture, last }
}

test.each(
  waysOf([
    ['two names', ['drawn', 'another']],
    ['one name', ['drawn']],
  ]),
)(
  'a transaction lock on %s that draws the first fence on the new primary has a larger fence than all before',
  async (_, names) => {
    const { fixture, last } = await failOver()
    const next = await openInstance(fixture.standbyUrl, { anchor: 'none', migrate: false })
    const client = await sqlSession(fixture.standbyUrl)
    await client.query('begin')
    // The lock waits for the expiry of the instance on the old primary.
    const lock = await next.locks.inTransaction(client, names, { wait: 2 * expiryMs + 1_000 })
    expect(lock.fence).toBeGreaterThan(last)
    await client.query('commit')
  },
)

test('a transaction lock is not granted while a disconnected holder may still rely on its lock', async () => {
  const fixture = await openFixture()
  const old = await openInstance(fixture.clients.through(fixture.primaryUrl))
  const held = await old.locks.acquire('x')
  await catchUp(fixture.pair)
  cutOff(fixture.clients, fixture.stream)
  await promote(fixture.pair)
  const next = await openInstance(fixture.standbyUrl, { anchor: 'none', migrate: false })
  const client = await sqlSession(fixture.standbyUrl)
  await client.query('begin')
  const granted = async () => {
    const lock = await next.locks.tryInTransaction(client, 'x')
    // The old holder has given up its lock before the grant.
    if (lock) expect(held.signal.aborted).toBe(true)
    return lock
  }
  expect((await until('the transaction lock is granted', granted, 4 * expiryMs)).fence).toBeGreaterThan(held.fence)
})

test.each(
  waysOf<[string, (instance: Holdfast) => Promise<number>]>([
    ['lease', async ({ leases }) => (await leases.acquire('drawn', { wait: '20s' })).fence],
    ['permit', ({ limits }) => limits.with('drawn', { max: 1, wait: '20s' }, ({ fence }) => fence)],
  ]),
)('a %s that draws the first fence on the new primary has a larger fence than all before', async (_, draw) => {
  const { fixture, last } = await failOver()
  const next = await openInstance(fixture.standbyUrl, { anchor: 'none', migrate: false })
  expect(await within(20_000, 'The first draw', draw(next))).toBeGreaterThan(last)
  expect(await sql(fixture.standbyUrl, 'select timeline from holdfast.server_generation')).toEqual([{ timeline: 2 }])
})

test('a job id that the standby has not received is not used again on the new primary', async () => {
  const fixture = await openFixture()
  const enqueue = async (url: string) => {
    const [row] = await sql<{ id: string }>(url, "select holdfast.enqueue('default', 'mail', '{}') as id")
    return Number(row!.id)
  }
  const old = await openInstance(fixture.primaryUrl)
  await enqueue(fixture.primaryUrl)
  await catchUp(fixture.pair)
  cutOff(fixture.stream)
  let last = 0
  // PostgreSQL logs a sequence 32 values ahead.
  for (let draw = 0; draw < 100; draw++) last = await enqueue(fixture.primaryUrl)
  await old.close()
  await fixture.pair.primary.stop('immediate')
  await promote(fixture.pair)
  expect(await enqueue(fixture.standbyUrl)).toBeGreaterThan(last)
})
