// The primary is lost while instances work, its standby is promoted, and they move over: by the hosts in their URL alone.
import { expect, test } from 'vitest'
import { DatabaseUnreachableError, Holdfast } from '../../src/index.js'
import { caught, sql, until } from '../setup/facts.js'
import { catchUp, promote } from '../setup/pair.js'
import { isInHurry } from '../setup/variants.js'
import { cutOff, Fleet, hadOneHolder, noted, openFixture } from './failover-fixture.js'
import { expiryMs, openInstance } from './fixture.js'

const patience = { timeout: 120_000 }

test('synchronous, the primary crashes: everybody moves over, and no acknowledged job is lost', patience, async () => {
  const { pair, standbyUrl, url } = await openFixture({ synchronous: true })
  const fleet = new Fleet(url, { expiryMs })
  await fleet.works()
  await pair.primary.stop('immediate')
  const before = fleet.acknowledged
  const lostAt = performance.now()
  await promote(pair)
  await fleet.works()
  console.log(`crash, synchronous: everybody works again after ${(performance.now() - lostAt).toFixed(0)} ms`)
  await fleet.drains(standbyUrl)
  await fleet.close()
  hadOneHolder(fleet)
  const done = new Set(await noted(standbyUrl))
  expect(before.length).toBeGreaterThan(0)
  expect(fleet.acknowledged.filter((number) => !done.has(number))).toEqual([])
})

test('synchronous, the primary is cut off and goes on believing: the same', patience, async () => {
  const { pair, clients, stream, primaryUrl, standbyUrl, url } = await openFixture({ synchronous: true })
  const fleet = new Fleet(url, { expiryMs })
  await fleet.works()
  cutOff(clients, stream)
  const lostAt = performance.now()
  await promote(pair)
  await fleet.works()
  console.log(`cut off, synchronous: everybody works again after ${(performance.now() - lostAt).toFixed(0)} ms`)
  expect(await sql(primaryUrl, 'select pg_is_in_recovery() as replica')).toEqual([{ replica: false }])
  await fleet.drains(standbyUrl)
  await fleet.close()
  hadOneHolder(fleet)
  const done = new Set(await noted(standbyUrl))
  expect(fleet.acknowledged.filter((number) => !done.has(number))).toEqual([])
})

test.skipIf(isInHurry)('a planned switchover: nothing is lost, asynchronous as it is', patience, async () => {
  const { pair, standbyUrl, url } = await openFixture()
  const fleet = new Fleet(url, { expiryMs })
  await fleet.works()
  // A primary that stops in good order waits until its standby has everything.
  await pair.primary.stop('fast')
  const lostAt = performance.now()
  await promote(pair)
  await fleet.works()
  console.log(`switchover: everybody works again after ${(performance.now() - lostAt).toFixed(0)} ms`)
  await fleet.drains(standbyUrl)
  await fleet.close()
  hadOneHolder(fleet)
  const done = await noted(standbyUrl)
  expect(fleet.acknowledged.filter((number) => !done.includes(number))).toEqual([])
  // By their own transaction: once.
  expect(new Set(done).size).toBe(done.length)
})

test('asynchronous: what was acknowledged and not yet replicated is lost, and nothing else', patience, async () => {
  const { pair, clients, stream, primaryUrl, standbyUrl, url } = await openFixture()
  const fleet = new Fleet(url, { expiryMs })
  await fleet.works()
  await until('jobs run there', async () => (await noted(primaryUrl)).length > 0)
  const kept = fleet.acknowledged
  await catchUp(pair)
  // The standby hears no more, and the primary goes on for a while: that is what asynchronous allows.
  cutOff(stream)
  await fleet.works()
  cutOff(clients)
  await fleet.hasTold()
  const lastFence = fleet.lastFence
  await promote(pair)
  const promotedAt = Number(process.hrtime.bigint() / 1_000n)
  await fleet.works()
  await fleet.drains(standbyUrl)
  await fleet.close()
  hadOneHolder(fleet)
  const done = new Set(await noted(standbyUrl))
  const lost = fleet.acknowledged.filter((number) => !done.has(number))
  console.log(`asynchronous: ${lost.length} of ${fleet.acknowledged.length} acknowledged jobs were lost`)
  expect(lost.length).toBeGreaterThan(0)
  expect(kept.filter((number) => !done.has(number))).toEqual([])
  const acknowledged = fleet.told.filter(({ event, number }) => event === 'acknowledged' && lost.includes(number))
  expect(acknowledged.filter(({ at }) => at > promotedAt)).toEqual([])
  // And they had their effect, or are still there, where nobody will look any more.
  const forgotten = await sql<{ n: string }>(primaryUrl, 'select count(*) as n from noted')
  expect(Number(forgotten[0]!.n)).toBeGreaterThan(0)
  const [drawn] = await sql<{ fence: string }>(standbyUrl, "select nextval('holdfast.fence') as fence")
  expect(Number(drawn!.fence)).toBeGreaterThan(lastFence)
})

/** What instances have on a server, without those who only ask what it is. */
const sessions = (url: string) =>
  sql(url, "select from pg_stat_activity where application_name ~ '^holdfast( [0-9a-f]{12})?$'")

test.skipIf(isInHurry)(
  'an old primary that still answers is left before the new one grants, and found by nobody',
  patience,
  async () => {
    const { pair, stream, primaryUrl, url } = await openFixture()
    const fleet = new Fleet(url, { expiryMs })
    await fleet.works()
    expect(await sessions(primaryUrl)).not.toEqual([])
    await catchUp(pair)
    cutOff(stream)
    await promote(pair)
    await until('everybody has left the old one', async () => (await sessions(primaryUrl)).length === 0)
    await fleet.works()
    // Knows nothing yet, and the old one is the first of its hosts.
    const late = new Fleet(url, { size: 1, expiryMs })
    await late.works()
    expect(await sessions(primaryUrl)).toEqual([])
    await Promise.all([fleet.close(), late.close()])
    hadOneHolder(fleet, late)
  },
)

test('synchronous, an old primary that is cut off from its standby admits nobody', patience, async () => {
  const { stream, primaryUrl } = await openFixture({ synchronous: true })
  await (await openInstance(primaryUrl)).close()
  cutOff(stream)
  await caught(DatabaseUnreachableError, Holdfast.open({ url: primaryUrl, expiry: expiryMs, migrate: false }))
})
