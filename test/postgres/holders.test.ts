// Errors of calls that fail because of another holder contain the holder's name.

import { hostname } from 'node:os'
import { expect, test } from 'vitest'
import { LeaseTimeoutError, LimitReachedError, LockTimeoutError } from '../../src/index.js'
import { HolderLookup, openPgPool } from '../../src/postgres/index.js'
import { caught, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const place = `\\(process ${process.pid} on ${hostname()}\\)`

test('a lock timeout contains the name of the holder, and how long the holder has had the lock', async () => {
  const url = await databaseUrl()
  const holder = await open({ url, name: 'worker-3' })
  const other = await open({ url })
  await holder.locks.acquire('b')
  const error = await caught(LockTimeoutError, other.locks.acquire(['a', 'b'], { wait: '20ms' }))
  expect(error.holder).toBe('worker-3')
  expect(error.message).toMatch(
    new RegExp(`^The lock "a, b" was still held by worker-3 ${place} after a wait of \\d+ms$`),
  )
  // The start of a hold is recorded after about 3 s.
  const isKnown = async () => {
    const later = await caught(LockTimeoutError, other.locks.acquire('b', { wait: 0 }))
    return / after a wait of \d+ms\. The hold began [\d.]+s ago$/.test(later.message)
  }
  await until('the start of the hold is known', isKnown)
  const client = await sqlSession(url)
  await client.query('begin')
  const inTransaction = other.locks.inTransaction(client, 'b', { wait: '20ms' })
  expect((await caught(LockTimeoutError, inTransaction)).holder).toBe('worker-3')
  await client.query('rollback')
})

test('a lock timeout contains the application name of a session that does not belong to Holdfast', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const client = await sqlSession(url)
  await client.query("set application_name = 'nightly-script'")
  await client.query('select pg_advisory_lock($1)', [holdfast.locks.key('report')])
  const error = await caught(LockTimeoutError, holdfast.locks.acquire('report', { wait: '20ms' }))
  expect(error.holder).toBe('nightly-script')
  expect(error.message).toMatch(/held by nightly-script \(session \d+\) after/)
})

test('a lease timeout contains the name of a holder that is present, and of a holder that uses only leases', async () => {
  const url = await databaseUrl()
  const other = await open({ url })
  const present = await open({ url, name: 'worker-3' })
  await present.leases.acquire('one')
  const error = await caught(LeaseTimeoutError, other.leases.acquire('one', { wait: '20ms' }))
  expect(error.holder).toBe('worker-3')
  expect(error.message).toMatch(
    new RegExp(`^The lease "one" was still held by worker-3 ${place} after .*\\. The hold began [\\d.]+m?s ago$`),
  )
  const leasesOnly = await open({ url, anchor: 'none', name: 'function-7' })
  await leasesOnly.leases.acquire('two')
  const second = await caught(LeaseTimeoutError, other.leases.acquire('two', { wait: '20ms' }))
  expect(second.holder).toBe('function-7')
})

test('a reached limit contains the name of the instance with the oldest permit', async () => {
  const url = await databaseUrl()
  const [first, second] = [await open({ url, name: 'worker-1' }), await open({ url, name: 'worker-2' })]
  await first.limits.acquire('gpu', { max: 2 })
  await second.limits.acquire('gpu', { max: 2 })
  const error = await caught(LimitReachedError, second.limits.acquire('gpu', { max: 2 }))
  expect(error.holder).toBe('worker-1')
  expect(error.message).toMatch(new RegExp(`2 of 2 in use, the oldest by worker-1 ${place} for [\\d.]+m?s$`))
})

test('a reached limit contains the name of the new holder immediately after the permit has changed hands', async () => {
  const url = await databaseUrl()
  const [first, second] = [await open({ url, name: 'worker-1' }), await open({ url, name: 'worker-2' })]
  const other = await open({ url })
  const reached = () => caught(LimitReachedError, other.limits.acquire('gpu', { max: 1 }))
  const permit = await first.limits.acquire('gpu', { max: 1 })
  expect((await reached()).holder).toBe('worker-1')
  await permit.release()
  await second.limits.acquire('gpu', { max: 1 })
  expect((await reached()).holder).toBe('worker-2')
})

test('a lookup reads each key at most once per second, and ignores errors', async () => {
  const url = await databaseUrl()
  const database = openPgPool({ connectionString: url })
  let queries = 0
  const query = (...given: Parameters<typeof database.query>) => {
    queries++
    return database.query(...given)
  }
  const counting = new HolderLookup(Object.create(database, { query: { value: query } }), 'holdfast')
  await Promise.all(Array.from({ length: 100 }, () => counting.ofNames(['1'])))
  await counting.ofNames(['1'])
  expect(queries).toBe(1)
  await database.close()
  expect(await counting.ofNames(['2'])).toBeUndefined()
  expect(await counting.ofLimit('3', undefined)).toBeUndefined()
})
