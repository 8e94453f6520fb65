// The primary fails while instances work, and the standby is promoted. The instances move to the new primary with the hosts in their URL.
import { expect, test } from 'vitest'
import { DatabaseUnreachableError, Holdfast } from '../../src/index.js'
import { caught, sql, until } from '../setup/facts.js'
import { catchUp, promote } from '../setup/pair.js'
import { runsAll } from '../setup/variants.js'
import { cutOff, effects, expectOneHolder, Fleet, openFixture } from './failover-fixture.js'
import { expiryMs, openInstance } from './fixture.js'

const patience = { timeout: 120_000 }

test('no acknowledged job is lost when a synchronously replicated primary crashes', patience, async () => {
  const { pair, standbyUrl, url } = await openFixture({ synchronous: true })
  const fleet = new Fleet(url, { expiryMs })
  await fleet.works()
  await pair.primary.stop('immediate')
  const before = fleet.acknowledged
  const lostAt = performance.now()
  await promote(pair)
  await fleet.works()
  console.log(`crash, synchronous: all members work again after ${(performance.now() - lostAt).toFixed(0)} ms`)
  await fleet.drains(standbyUrl)
  await fleet.close()
  expectOneHolder(fleet)
  const done = new Set(await effects(standbyUrl))
  expect(before.length).toBeGreaterThan(0)
  expect(fleet.acknowledged.filter((number) => !done.has(number))).toEqual([])
})

test.skipIf(!runsAll)(
  'no acknowledged job is lost when a synchronously replicated primary is disconnected and keeps running',
  patience,
  async () => {
    const { pair, clients, stream, primaryUrl, standbyUrl, url } = await openFixture({ synchronous: true })
    const fleet = new Fleet(url, { expiryMs })
    await fleet.works()
    cutOff(clients, stream)
    const lostAt = performance.now()
    await promote(pair)
    await fleet.works()
    console.log(`disconnected, synchronous: all members work again after ${(performance.now() - lostAt).toFixed(0)} ms`)
    expect(await sql(primaryUrl, 'select pg_is_in_recovery() as replica')).toEqual([{ replica: false }])
    await fleet.drains(standbyUrl)
    await fleet.close()
    expectOneHolder(fleet)
    const done = new Set(await effects(standbyUrl))
    expect(fleet.acknowledged.filter((number) => !done.has(number))).toEqual([])
  },
)

test.skipIf(!runsAll)(
  'no acknowledged job is lost in a planned switchover with asynchronous replication',
  patience,
  async () => {
    const { pair, standbyUrl, url } = await openFixture()
    const fleet = new Fleet(url, { expiryMs })
    await fleet.works()
    // A primary that shuts down normally waits until its standby has received everything.
    await pair.primary.stop('fast')
    const lostAt = performance.now()
    await promote(pair)
    await fleet.works()
    console.log(`switchover: all members work again after ${(performance.now() - lostAt).toFixed(0)} ms`)
    await fleet.drains(standbyUrl)
    await fleet.close()
    expectOneHolder(fleet)
    const done = await effects(standbyUrl)
    expect(fleet.acknowledged.filter((number) => !done.includes(number))).toEqual([])
    // The effect is in the job's transaction, so it happens once.
    expect(new Set(done).size).toBe(done.length)
  },
)

test.skipIf(!runsAll)(
  'only jobs that were not yet replicated are lost when an asynchronously replicated primary fails',
  patience,
  async () => {
    const { pair, clients, stream, primaryUrl, standbyUrl, url } = await openFixture()
    const fleet = new Fleet(url, { expiryMs })
    await fleet.works()
    await until('jobs run on the primary', async () => (await effects(primaryUrl)).length > 0)
    const replicated = fleet.acknowledged
    await catchUp(pair)
    // The primary works without its standby for a while, which asynchronous replication allows.
    cutOff(stream)
    await fleet.works()
    cutOff(clients)
    await fleet.hasReported()
    const lastFence = fleet.lastFence
    await promote(pair)
    const promotedAt = Number(process.hrtime.bigint() / 1_000n)
    await fleet.works()
    await fleet.drains(standbyUrl)
    await fleet.close()
    expectOneHolder(fleet)
    const done = new Set(await effects(standbyUrl))
    const lost = fleet.acknowledged.filter((number) => !done.has(number))
    console.log(`asynchronous: ${lost.length} of ${fleet.acknowledged.length} acknowledged jobs were lost`)
    expect(lost.length).toBeGreaterThan(0)
    expect(replicated.filter((number) => !done.has(number))).toEqual([])
    const acknowledged = fleet.allMessages.filter(
      ({ event, number }) => event === 'acknowledged' && lost.includes(number),
    )
    expect(acknowledged.filter(({ at }) => at > promotedAt)).toEqual([])
    // The old primary still has the lost jobs and their effects.
    const onOldPrimary = await sql<{ n: string }>(primaryUrl, 'select count(*) as n from effect')
    expect(Number(onOldPrimary[0]!.n)).toBeGreaterThan(0)
    const [drawn] = await sql<{ fence: string }>(standbyUrl, "select nextval('holdfast.fence') as fence")
    expect(Number(drawn!.fence)).toBeGreaterThan(lastFence)
  },
)

/** Sessions of instances on a server, without the short sessions that only check the server's role. */
const sessions = (url: string) =>
  sql(url, "select from pg_stat_activity where application_name ~ '^holdfast( [0-9a-f]{12})?$'")

test.skipIf(!runsAll)(
  'instances leave an old primary that still responds before the new one grants, and a new instance does not connect to it',
  patience,
  async () => {
    const { pair, stream, primaryUrl, url } = await openFixture()
    const fleet = new Fleet(url, { expiryMs })
    await fleet.works()
    expect(await sessions(primaryUrl)).not.toEqual([])
    await catchUp(pair)
    cutOff(stream)
    await promote(pair)
    await until('all instances have left the old primary', async () => (await sessions(primaryUrl)).length === 0)
    await fleet.works()
    // A new process, whose first host is the old primary.
    const late = new Fleet(url, { size: 1, expiryMs })
    await late.works()
    expect(await sessions(primaryUrl)).toEqual([])
    await Promise.all([fleet.close(), late.close()])
    expectOneHolder(fleet, late)
  },
)

test(
  'a synchronously replicated primary that is disconnected from its standby lets no instance open',
  patience,
  async () => {
    const { stream, primaryUrl } = await openFixture({ synchronous: true })
    await (await openInstance(primaryUrl)).close()
    cutOff(stream)
    await caught(
      DatabaseUnreachableError,
      Holdfast.open({ url: primaryUrl, expiry: expiryMs, migrate: false, log: false }),
    )
  },
)
