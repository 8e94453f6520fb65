import { describe, expect, test } from 'vitest'
import { DatabaseUnreachableError, LimitReachedError, PermitLostError } from '../../src/index.js'
import { nothingInUse, untilQueued } from '../limits/facts.js'
import { caught, sql, until, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance, openProxy, openServer } from './fixture.js'

// Permits end when their process, their session or the server ends.

interface HolderOptions {
  expiryMs?: number
  anchor?: 'required' | 'none'
  names: string[]
  max?: number
}

interface Message {
  fence: number
  held?: boolean
}

const holderOf = (url: string, options: HolderOptions) =>
  new Child<Message>('./limits-holder.ts', { url, expiryMs: 60_000, max: 1, ...options })

async function startHolder(url: string, options: HolderOptions): Promise<{ holder: Child<Message>; fence: number }> {
  const holder = holderOf(url, options)
  const { fence } = await holder.first('the fence of its permits')
  return { holder, fence }
}

test('permits of a killed process are free immediately, for waiting and for new calls', {
  timeout: 60_000,
}, async () => {
  const { url } = await openDatabase()
  const a = await openInstance(url)
  const { holder, fence } = await startHolder(url, { names: ['waited for', 'tried', 'two', 'two'], max: 2 })
  for (const name of ['waited for', 'tried']) await a.limits.acquire(name, { max: 2 })
  const waiting = a.limits.acquire('waited for', { max: 2, wait: '30s' })
  await untilQueued(url, 'waited for', 1)
  expect(await a.limits.tryAcquire('tried', { max: 2 })).toBeNull()
  holder.kill()
  await holder.ended()
  // The expiry of the killed process is a minute.
  const granted = await within(15_000, 'The waiting call', waiting)
  expect(granted.fence).toBeGreaterThan(fence)
  await until('a new call succeeds', () => a.limits.tryAcquire('tried', { max: 2 }))
  await a.limits.acquire('two', { max: 2, weight: 2 })
})

test('a killed process that waits for a permit does not block the calls behind it', { timeout: 60_000 }, async () => {
  const { url } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.limits.acquire('x', { max: 1 })
  const waiting = holderOf(url, { names: ['x'] })
  await untilQueued(url, 'x', 1)
  const behind = b.limits.acquire('x', { max: 1, wait: '30s' })
  await untilQueued(url, 'x', 2)
  waiting.kill()
  await until('only one call waits', async () => (await a.limits.usage('x')).waiters.length === 1)
  await held.release()
  await within(15_000, 'The call behind the killed waiter', behind)
})

describe.each(waysOf(['required', 'none']))('anchor: %s', { timeout: 60_000 }, (anchor) => {
  test('a frozen process loses its permits after the expiry and knows of the loss as soon as it is thawed', async () => {
    const { url } = await openDatabase()
    const a = await openInstance(url)
    const { holder, fence } = await startHolder(url, { expiryMs, anchor, names: ['x'] })
    const waiting = a.limits.acquire('x', { max: 1, wait: '30s' })
    await untilQueued(url, 'x', 1)
    const frozenAt = performance.now()
    holder.process.kill('SIGSTOP')
    const granted = await within(4 * expiryMs, 'The next grant', waiting)
    expect(performance.now() - frozenAt).toBeGreaterThan(expiryMs * 0.5)
    expect(granted.fence).toBeGreaterThan(fence)
    holder.process.kill('SIGUSR2')
    holder.process.kill('SIGCONT')
    const check = await holder.waitFor('its first check', ({ held }) => held !== undefined)
    expect(check).toEqual({ held: false, code: 'PERMIT_LOST' })
    expect(granted.held).toBe(true)
  })

  test('a permit is no longer held at the first check after the event loop was blocked for the expiry', async () => {
    const { url } = await openDatabase()
    const a = await openInstance(url, { anchor })
    const permit = await a.limits.acquire('x', { max: 1 })
    expect(permit.held).toBe(true)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, expiryMs)
    // In the same turn of the event loop, before any timer or socket event.
    expect(permit.held).toBe(false)
    expect(permit.signal.reason).toBeInstanceOf(PermitLostError)
  })

  test('a live instance keeps its permits for several expiries without renewing their rows', async () => {
    const { url } = await openDatabase()
    const [a, b] = [await openInstance(url, { anchor }), await openInstance(url)]
    const permit = await a.limits.acquire('x', { max: 1 })
    const [before] = await sql(url, 'select xmin, ctid from holdfast.permit')
    expect(await b.limits.tryAcquire('x', { max: 1, wait: 2.5 * expiryMs })).toBeNull()
    expect(permit.held).toBe(true)
    expect((await sql(url, 'select xmin, ctid from holdfast.permit'))[0]).toEqual(before)
  })
})

test('a permit holder whose session is ended is notified, and its own and other waiting calls get their permits', {
  timeout: 60_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.limits.acquire('x', { max: 1 })
  const elsewhere = await b.limits.acquire('y', { max: 1 })
  const own = a.limits.acquire('y', { max: 1, wait: '30s' })
  const others = b.limits.acquire('x', { max: 1, wait: '30s' })
  await untilQueued(url, 'x', 1)
  await untilQueued(url, 'y', 1)
  const lost = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)))
  await witness.terminate(await witness.anchorOf(a.id))
  const reason = await within(15_000, 'The notification', lost)
  expect(reason).toBeInstanceOf(PermitLostError)
  expect(reason).toMatchObject({ code: 'PERMIT_LOST', limit: 'x', fence: held.fence, retryable: true })
  expect((reason as Error).message).toMatch(/^The permit for "x" was lost: /)
  expect(held.held).toBe(false)
  const next = await within(15_000, 'The next grant', others)
  expect(next.fence).toBeGreaterThan(held.fence)
  await held.release()
  expect(next.held).toBe(true)
  await untilQueued(url, 'y', 1)
  await elsewhere.release()
  const granted = await within(15_000, 'The call that waited while its session ended', own)
  expect(granted.held).toBe(true)
  await Promise.all([granted, next].map((permit) => permit.release()))
  await until('no permit is in use', () => nothingInUse(url))
})

test('limits.with throws after its work has ended if the permit was lost during the work', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const work = a.limits.with('x', { max: 1 }, async ({ signal }) => {
    const lost = new Promise((resolve) => signal.addEventListener('abort', resolve))
    await witness.terminate(await witness.anchorOf(a.id))
    await lost
  })
  await caught(PermitLostError, work)
})

test('limits.acquire waits while the instance is reconnecting if it has a wait, and otherwise throws', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.limits.acquire('x', { max: 1 })
  // Simulates an earlier instance that has not expired. Until it expires, no instance reconnects and the server grants nothing.
  await sql(
    url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation)
                  values ('cut off', 'cut off', '', 999999, '', 1, '', 6000, 'none', 0)`,
  )
  await sql(
    url,
    'update holdfast.server_generation set began_at = clock_timestamp(), generation = greatest(1, generation)',
  )
  const lost = new Promise<void>((resolve) => held.signal.addEventListener('abort', () => resolve()))
  await witness.terminate(await witness.anchorOf(a.id))
  await lost
  await caught(DatabaseUnreachableError, a.limits.acquire('y', { max: 1 }))
  await caught(DatabaseUnreachableError, b.limits.acquire('y', { max: 1 }))
  const waiting = [a, b].map((instance) => instance.limits.acquire('z', { max: 2, wait: '30s' }))
  const permits = await within(15_000, 'The grants', Promise.all(waiting))
  expect(permits.every((permit) => permit.held)).toBe(true)
})

test('limits.acquire names the restart of the server while an earlier holder may still rely on its permit', async () => {
  const { url } = await openDatabase()
  const a = await openInstance(url)
  // Simulates an instance from before a restart that has not expired.
  await sql(
    url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation)
     values ('cut off', 'cut off', '', 999999, '', 1, '', 86400000, 'none', -1)`,
  )
  const error = await caught(DatabaseUnreachableError, a.limits.acquire('x', { max: 1 }))
  expect(error.message).toBe(
    'The server has restarted, and a process may still rely on a permit from before the restart',
  )
})

describe.each(waysOf(['fast', 'immediate']))('server restart (%s)', { timeout: 60_000 }, (mode) => {
  test('holders of permits are notified of a server restart, and waiting calls get permits afterwards', async () => {
    const { server, url } = await openServer()
    const [a, b] = [await openInstance(url), await openInstance(url, { anchor: 'none' })]
    const held = [await a.limits.acquire('x', { max: 2 }), await b.limits.acquire('x', { max: 2 })]
    const waiting = [a, b, a].map((instance) => instance.limits.acquire('x', { max: 2, wait: '60s' }))
    await untilQueued(url, 'x', 3)
    const lost = held.map((one) => new Promise((resolve) => one.signal.addEventListener('abort', resolve)))
    await server.restart(mode)
    await within(10_000, 'The notifications', Promise.all(lost))
    expect(held.map((one) => one.held)).toEqual([false, false])
    let inside = 0
    const finished = waiting.map(async (call) => {
      const permit = await call
      expect(permit.fence).toBeGreaterThan(held[1]!.fence)
      expect(++inside).toBeLessThanOrEqual(2)
      inside--
      await permit.release()
    })
    await within(20_000, 'The grants', Promise.all(finished))
    await until('no permit is in use', () => nothingInUse(url).catch(() => false))
  })

  test('no permit is granted after a server restart before a disconnected holder has given up its permit', async () => {
    const { server, url } = await openServer()
    const proxy = await openProxy(url)
    const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
    const held = await a.limits.acquire('x', { max: 1 })
    let notifiedAt = Number.POSITIVE_INFINITY
    held.signal.addEventListener('abort', () => {
      notifiedAt = performance.now()
    })
    const waiting = b.limits.acquire('x', { max: 1, wait: '60s' })
    await untilQueued(url, 'x', 1)
    proxy.silence('to-server', 'to-client')
    await server.restart(mode)
    const next = await within(6 * expiryMs, 'The next grant', waiting)
    expect(notifiedAt).toBeLessThan(performance.now())
    expect(next.fence).toBeGreaterThan(held.fence)
  })
})

test('limits.acquire throws if the pool becomes silent, and a permit that was granted anyway is returned', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  const a = await openInstance(proxy.through(url), { directUrl: url })
  const b = await openInstance(url)
  await (await a.limits.acquire('x', { max: 1 })).release()
  // The server grants the permit, and only the response is lost.
  proxy.silence('to-client')
  await caught(
    DatabaseUnreachableError,
    within(4 * expiryMs, 'The failure of acquire', a.limits.acquire('x', { max: 1 })),
  )
  await within(
    4 * expiryMs,
    'The next grant',
    b.limits.acquire('x', { max: 1, wait: '30s' }).then((one) => one.release()),
  )
  await caught(LimitReachedError, async () => {
    await using _held = await b.limits.acquire('x', { max: 1, wait: '5s' })
    await a.limits.acquire('x', { max: 1 })
  })
  await until('no permit is in use', () => nothingInUse(url))
})

test.each([
  ['one', `limit_decide_one('holdfast', $1, 'default', 'x', $2, $3::bigint, 42, $4::integer, 1, 1)`],
  [
    'batch',
    `limit_decide(
       'holdfast', $1, 'default', '["x"]', array[$2], array[$3::bigint], '{42}', array[$4::integer], '{1}', '{1}', false)`,
  ],
])('%s: a request that arrives after its cancellation is not granted', async (_, call) => {
  const { url } = await openDatabase()
  const a = await openInstance(url)
  await (await a.limits.acquire('x', { max: 1 })).release()
  const [{ key, session }] = (await sql(url, `select key, session from holdfast.limit_state, holdfast.instance`)) as [
    { key: string; session: number },
  ]
  const decide = async (kind: string) => {
    const [row] = await sql<{ verdict: string }>(url, `select verdict from holdfast.${call}`, [
      a.id,
      kind,
      key,
      session,
    ])
    // A cancelled request has no row.
    return row?.verdict ?? 'gone'
  }
  // The first message is sent twice, as if its first response was lost.
  const verdicts = [await decide('cancel'), await decide('cancel'), await decide('try'), await decide('wait')]
  expect(verdicts).toEqual(['gone', 'gone', 'gone', 'gone'])
  await using _permit = await a.limits.acquire('x', { max: 1 })
})
