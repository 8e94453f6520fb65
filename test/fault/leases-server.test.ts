import { expect, test } from 'vitest'
import { sqlPool, stays, until, type Witness, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { openDatabase, openInstance, openProxy, openServer } from './fixture.js'
import { timed, whenNotified } from './leases.js'

// Leases while the server ends sessions or restarts, and while the program uses up its pool.

/** Returns the expiry of each lease in the database, in ms. */
async function expiries(witness: Witness): Promise<number[]> {
  const rows = await witness.query<{ at: number }>(
    'select (extract(epoch from expires_at) * 1000)::float8 as at from holdfast.lease order by key',
  )
  return rows.map(({ at }) => at)
}

async function untilRenewed(witness: Witness, byMs = 0): Promise<void> {
  const before = await expiries(witness)
  await until('all leases are renewed', async () => (await expiries(witness)).every((at, i) => at > before[i]! + byMs))
}

test('a lease is renewed although the session of the anchor is ended again and again', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const lease = await a.leases.acquire('x', { ttl: '3s' })
  const firstExpiry = (await expiries(witness))[0]! + lease.ttlMs
  do {
    await witness.terminate(await witness.anchorOf(a.id))
    await untilRenewed(witness)
  } while ((await expiries(witness))[0]! < firstExpiry)
  expect(lease.held).toBe(true)
  expect(lease.signal.aborted).toBe(false)
  await lease.extend()
})

test('a lease is renewed although all sessions are ended again and again', async () => {
  const { url, witness } = await openDatabase()
  const instances = [await openInstance(url), await openInstance(url, { anchor: 'none' })]
  const leases = await Promise.all(instances.map((instance, at) => instance.leases.acquire(`n${at}`, { ttl: '3s' })))
  for (let at = 0; at < 4; at++) {
    await witness.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'holdfast%' and datname = current_database()`,
    )
    await untilRenewed(witness)
  }
  for (const lease of leases) expect(lease.held).toBe(true)
})

for (const mode of waysOf(['immediate', 'fast'])) {
  test(`a lease survives a restart (${mode}) with its fence, and no other process gets the name`, async () => {
    const { server, url, witness } = await openServer()
    const [a, b, c] = [await openInstance(url), await openInstance(url), await openInstance(url, { anchor: 'none' })]
    const [one, other] = [await a.leases.acquire('x', { ttl: '20s' }), await c.leases.acquire('y', { ttl: '20s' })]
    const waiting = [b.leases.acquire('x'), b.leases.acquire('y'), b.locks.acquire('x')].map((call) =>
      call.then(
        ({ fence }) => fence,
        (error) => error,
      ),
    )
    await server.restart(mode)
    await Promise.all([
      until('the first lease is renewed', extended(one)),
      until('the second lease is renewed', extended(other)),
    ])
    expect([one.held, other.held]).toEqual([true, true])
    let granted = 0
    for (const call of waiting) void call.then(() => granted++)
    await stays('no waiter has got a leased name', () => granted === 0, 500)
    const rows = await witness.query<{ fence: string }>('select fence from holdfast.lease order by fence')
    expect(rows.map(({ fence }) => Number(fence))).toEqual([one.fence, other.fence].toSorted((x, y) => x - y))
    await Promise.all([one.release(), other.release()])
    // The server grants nothing until all earlier instances have reconnected or expired.
    const next = await b.leases.acquire('z', { wait: '20s' })
    expect(next.fence).toBeGreaterThan(Math.max(one.fence, other.fence))
  })
}

function extended(lease: { extend(): Promise<void> }) {
  return () =>
    lease.extend().then(
      () => true,
      () => false,
    )
}

test('a lease of a disconnected holder is not granted to another before it expires, also after a restart', async () => {
  const { server, url } = await openServer()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url), { anchor: 'none' }), await openInstance(url)]
  const lease = await a.leases.acquire('x', { ttl: '4s' })
  const notification = whenNotified(lease)
  proxy.onConnection = (link) => link.silence('to-server', 'to-client')
  proxy.silence('to-server', 'to-client')
  await server.restart('immediate')
  const next = await within(20_000, 'The next grant', timed(b.leases.acquire('x')))
  const notified = await within(15_000, 'The notification', notification)
  expect(notified.at).toBeLessThan(next.at)
  expect(next.lease.fence).toBeGreaterThan(lease.fence)
  await proxy.close()
})

test('a lease is not granted after a restart while the holder of a lock on its name may rely on the lock', async () => {
  const { server, url } = await openServer()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url, { anchor: 'none' })]
  const lock = await a.locks.acquire('x')
  let notifiedAt = Number.POSITIVE_INFINITY
  lock.signal.addEventListener('abort', () => {
    notifiedAt = performance.now()
  })
  proxy.onConnection = (link) => link.silence('to-server', 'to-client')
  proxy.silence('to-server', 'to-client')
  await server.restart('immediate')
  await until('the lease is refused because of the restart', () =>
    b.leases.tryAcquire('x').then(
      () => false,
      (error) =>
        error.message ===
        'The server has restarted, and a process may still rely on a lock or lease from before the restart',
    ),
  )
  const lease = await within(15_000, 'The lease', b.leases.acquire('x'))
  expect(notifiedAt).toBeLessThan(performance.now())
  expect(lease.fence).toBeGreaterThan(lock.fence)
})

test.each(waysOf(['required', 'none']))(
  'a lease is renewed although the program uses up its pool (anchor: %s)',
  async (anchor) => {
    const { url, witness } = await openDatabase()
    const pool = sqlPool({ connectionString: url, max: 3 })
    const a = await openInstance(url, { url: undefined, pool, anchor })
    const lease = await a.leases.acquire('x', { ttl: '3s' })
    // A permit depends on the instance's presence, which expires after two seconds.
    const permit = await a.limits.acquire('x', { max: 1, wait: '5s' })
    const clients = await Promise.all([1, 2, 3].map(() => pool.connect()))
    await untilRenewed(witness, lease.ttlMs)
    expect([lease.held, permit.held]).toEqual([true, true])
    await lease.extend()
    // A call that needs the pool fails within its time.
    await expect(within(8_000, 'The call', a.leases.tryAcquire('y'))).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
    })
    for (const client of clients) client.release()
    await (await within(15_000, 'The call', a.leases.acquire('y', { wait: '10s' }))).release()
  },
)
