// Tests a real replica. It is refused while it is a replica. After its promotion its fences are larger than all fences that the
// old primary has granted, replicated or not.
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Holdfast, ReadOnlyError, SessionLocksUnavailableError } from '../../src/index.js'
import { examineDatabase, isGone } from '../doctor/fixture.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { caught, sql } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { catchUp, type Pair, promote, samePlace, startPair } from '../setup/pair.js'

let pair: Pair
let stream: SilentProxy
let primaryUrl: string
let standbyUrl: string

beforeAll(async () => {
  pair = await startPair(async ({ url }) => {
    stream = await SilentProxy.before(url)
    return stream.port
  })
  primaryUrl = await pair.primary.createDatabase('app', { template: inject('preparedServer').templateName })
  standbyUrl = samePlace(pair.standby, primaryUrl)
  await catchUp(pair)
})

afterAll(async () => {
  await stream?.close()
  await pair?.stop()
})

test('a replica is refused, because no other session sees its locks', async () => {
  expect(await sql(standbyUrl, 'select pg_is_in_recovery() as replica')).toEqual([{ replica: true }])
  const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url: standbyUrl }))
  expect(error).toMatchObject({ reason: 'read-replica', code: 'SESSION_LOCKS_UNAVAILABLE' })
  expect(error.hint).toContain('primary')
  expect((await examineDatabase(standbyUrl)).findings[0]).toMatchObject({ id: 'read-replica', severity: 'wrong' })
  // The fix is to connect to the primary.
  await isGone(primaryUrl, 'read-replica')
  const direct = Holdfast.open({ url: primaryUrl, directUrl: standbyUrl })
  expect(await caught(SessionLocksUnavailableError, direct)).toMatchObject({ reason: 'read-replica' })
})

test('a replica is named as the reason for a refused write, unlike default_transaction_read_only', async () => {
  const instance = await open({ url: standbyUrl, anchor: 'none' })
  const error = await caught(ReadOnlyError, instance.leases.tryAcquire('name'))
  expect(error).toMatchObject({ code: 'READ_ONLY', reason: 'standby', retryable: true })
  expect(error.message).toBe('The database is read-only: the server is a standby')
  expect(error.hint).toContain('failover')
})

test('a pool to the replica is refused if the anchor connects to the primary', async () => {
  const mixed = Holdfast.open({ url: standbyUrl, directUrl: primaryUrl })
  expect(await caught(SessionLocksUnavailableError, mixed)).toMatchObject({ reason: 'other-database' })
})

test('a promoted replica grants larger fences than those that it never received', async () => {
  const before = await open({ url: primaryUrl })
  const replicated = await before.locks.with('name', ({ fence }) => fence)
  await catchUp(pair)
  // The replica receives nothing more, and the primary continues: two seconds of grants at the highest rate that was measured.
  stream.cut()
  await sql(primaryUrl, "select count(nextval('holdfast.fence')) from generate_series(1, 500000)")
  const last = await before.locks.with('name', ({ fence }) => fence)
  expect(last).toBeGreaterThan(replicated + 500_000 - 1)
  await pair.primary.stop('immediate')
  await promote(pair)
  const after = await open({ url: standbyUrl })
  const fence = await after.locks.with('name', (lock) => lock.fence)
  expect(fence).toBeGreaterThan(last)
})
