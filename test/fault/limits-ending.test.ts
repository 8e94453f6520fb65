import { describe, expect, test } from 'vitest'
import { DatabaseUnreachableError, LimitReachedError, PermitLostError } from '../../src/index.js'
import { nothingInUse, untilQueued } from '../limits/facts.js'
import { caught, sql, until, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance, openProxy, openServer } from './fixture.js'

// Permits end with whoever held them: the process, its session, its server.

interface HolderOptions {
  expiryMs?: number
  anchor?: 'required' | 'none'
  names: string[]
  max?: number
}

interface Told {
  fence: number
  held?: boolean
}

const holderOf = (url: string, options: HolderOptions) =>
  new Child<Told>('./limits-holder.ts', { url, expiryMs: 60_000, max: 1, ...options })

async function startHolder(url: string, options: HolderOptions): Promise<{ holder: Child<Told>; fence: number }> {
  const holder = holderOf(url, options)
  const { fence } = await holder.first('it has the permits')
  return { holder, fence }
}

test('what a killed process held is free at once: for whoever waits, and for whoever comes', {
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
  // The expiry of the dead is a minute.
  const granted = await within(15_000, 'The one that waits', waiting)
  expect(granted.fence).toBeGreaterThan(fence)
  await until('a new try succeeds', () => a.limits.tryAcquire('tried', { max: 2 }))
  await a.limits.acquire('two', { max: 2, weight: 2 })
})

test('a waiting process that dies does not stand in the way of those behind it', { timeout: 60_000 }, async () => {
  const { url } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.limits.acquire('x', { max: 1 })
  const waiting = holderOf(url, { names: ['x'] })
  await untilQueued(url, 'x', 1)
  const behind = b.limits.acquire('x', { max: 1, wait: '30s' })
  await untilQueued(url, 'x', 2)
  waiting.kill()
  await until('only one waits', async () => (await a.limits.usage('x')).waiters.length === 1)
  await held.release()
  await within(15_000, 'The one behind', behind)
})

describe.each(waysOf(['required', 'none']))('anchor: %s', { timeout: 60_000 }, (anchor) => {
  test('a frozen process loses its permits at the expiry, and knows it when it is thawed', async () => {
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
    const look = await holder.tells('its first look', ({ held }) => held !== undefined)
    expect(look).toEqual({ held: false, code: 'PERMIT_LOST' })
    expect(granted.held).toBe(true)
  })

  test('an instance whose event loop was blocked for long knows at its next look that its permit is gone', async () => {
    const { url } = await openDatabase()
    const a = await openInstance(url, { anchor })
    const permit = await a.limits.acquire('x', { max: 1 })
    expect(permit.held).toBe(true)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, expiryMs)
    // In the same turn, before any timer or socket could speak.
    expect(permit.held).toBe(false)
    expect(permit.signal.reason).toBeInstanceOf(PermitLostError)
  })

  test('an instance that is well keeps its permits for many expiries, without renewing any', async () => {
    const { url } = await openDatabase()
    const [a, b] = [await openInstance(url, { anchor }), await openInstance(url)]
    const permit = await a.limits.acquire('x', { max: 1 })
    const [before] = await sql(url, 'select xmin, ctid from holdfast.permit')
    expect(await b.limits.tryAcquire('x', { max: 1, wait: 2.5 * expiryMs })).toBeNull()
    expect(permit.held).toBe(true)
    expect((await sql(url, 'select xmin, ctid from holdfast.permit'))[0]).toEqual(before)
  })
})

test('the session of a holder is ended: it is told, and whoever waits goes on, itself in its next life', {
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
  const told = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)))
  await witness.terminate(await witness.anchorOf(a.id))
  const reason = await within(15_000, 'Telling', told)
  expect(reason).toBeInstanceOf(PermitLostError)
  expect(reason).toMatchObject({ code: 'PERMIT_LOST', limit: 'x', fence: held.fence, retryable: true })
  expect((reason as Error).message).toMatch(/^The permit for "x" was lost: /)
  expect(held.held).toBe(false)
  const next = await within(15_000, 'The next', others)
  expect(next.fence).toBeGreaterThan(held.fence)
  await held.release()
  expect(next.held).toBe(true)
  await untilQueued(url, 'y', 1)
  await elsewhere.release()
  const granted = await within(15_000, 'The one whose life ended while it waited', own)
  expect(granted.held).toBe(true)
  await Promise.all([granted, next].map((permit) => permit.release()))
  await until('nothing is in use', () => nothingInUse(url))
})

test('with throws after work that went to its end although the permit had been lost', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const work = a.limits.with('x', { max: 1 }, async ({ signal }) => {
    const told = new Promise((resolve) => signal.addEventListener('abort', resolve))
    await witness.terminate(await witness.anchorOf(a.id))
    await told
  })
  await caught(PermitLostError, work)
})

test('what is asked for between two lives is waited for; whoever would not wait is told', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.limits.acquire('x', { max: 1 })
  // As long as somebody from before may believe, no new life begins and nobody is granted anything.
  await sql(
    url,
    `insert into holdfast.instance (id, namespace, session, host, os_pid, version, expiry_ms, pooler, generation)
                  values ('cut off', '', 999999, '', 1, '', 6000, 'none', 0)`,
  )
  await sql(
    url,
    'update holdfast.server_generation set began_at = clock_timestamp(), generation = greatest(1, generation)',
  )
  const told = new Promise<void>((resolve) => held.signal.addEventListener('abort', () => resolve()))
  await witness.terminate(await witness.anchorOf(a.id))
  await told
  await caught(DatabaseUnreachableError, a.limits.acquire('y', { max: 1 }))
  await caught(DatabaseUnreachableError, b.limits.acquire('y', { max: 1 }))
  const waiting = [a, b].map((instance) => instance.limits.acquire('z', { max: 2, wait: '30s' }))
  const permits = await within(15_000, 'The grants', Promise.all(waiting))
  expect(permits.every((permit) => permit.held)).toBe(true)
})

describe.each(['fast', 'immediate'] as const)('a server that restarts (%s)', { timeout: 60_000 }, (mode) => {
  test('the holder is told, and whoever waits gets a permit afterwards', async () => {
    const { server, url } = await openServer()
    const [a, b] = [await openInstance(url), await openInstance(url, { anchor: 'none' })]
    const held = [await a.limits.acquire('x', { max: 2 }), await b.limits.acquire('x', { max: 2 })]
    const waiting = [a, b, a].map((instance) => instance.limits.acquire('x', { max: 2, wait: '60s' }))
    await untilQueued(url, 'x', 3)
    const told = held.map((one) => new Promise((resolve) => one.signal.addEventListener('abort', resolve)))
    await server.restart(mode)
    await within(10_000, 'Telling', Promise.all(told))
    expect(held.map((one) => one.held)).toEqual([false, false])
    let inside = 0
    const finished = waiting.map(async (asked) => {
      const permit = await asked
      expect(permit.fence).toBeGreaterThan(held[1]!.fence)
      expect(++inside).toBeLessThanOrEqual(2)
      inside--
      await permit.release()
    })
    await within(20_000, 'The grants', Promise.all(finished))
    await until('nothing is in use', () => nothingInUse(url).catch(() => false))
  })

  test('while a holder is cut off: nobody is granted before it has stopped believing', async () => {
    const { server, url } = await openServer()
    const proxy = await openProxy(url)
    const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
    const held = await a.limits.acquire('x', { max: 1 })
    let toldAt = Number.POSITIVE_INFINITY
    held.signal.addEventListener('abort', () => {
      toldAt = performance.now()
    })
    const waiting = b.limits.acquire('x', { max: 1, wait: '60s' })
    await untilQueued(url, 'x', 1)
    proxy.silence('to-server', 'to-client')
    await server.restart(mode)
    const next = await within(6 * expiryMs, 'The next grant', waiting)
    expect(toldAt).toBeLessThan(performance.now())
    expect(next.fence).toBeGreaterThan(held.fence)
  })
})

test('a pool that fell silent: who asked is told, and what may have been granted is given back', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  const a = await openInstance(proxy.through(url), { directUrl: url })
  const b = await openInstance(url)
  await (await a.limits.acquire('x', { max: 1 })).release()
  // The grant happens; only its answer is lost.
  proxy.silence('to-client')
  await caught(DatabaseUnreachableError, within(4 * expiryMs, 'Being told', a.limits.acquire('x', { max: 1 })))
  await within(
    4 * expiryMs,
    'The next',
    b.limits.acquire('x', { max: 1, wait: '30s' }).then((one) => one.release()),
  )
  await caught(LimitReachedError, async () => {
    await using _held = await b.limits.acquire('x', { max: 1, wait: '5s' })
    await a.limits.acquire('x', { max: 1 })
  })
  await until('nothing is in use', () => nothingInUse(url))
})

test('a request that arrives after it was taken back is not granted', async () => {
  const { url } = await openDatabase()
  const a = await openInstance(url)
  await (await a.limits.acquire('x', { max: 1 })).release()
  const [{ key, life }] = (await sql(
    url,
    `select key, session as life from holdfast.limit_state, holdfast.instance`,
  )) as [{ key: string; life: number }]
  const turn = async (kind: string) => {
    const [row] = await sql<{ verdict: string }>(
      url,
      `select verdict
       from holdfast.limit_decide(
         'holdfast', $1, 'default', '["x"]', array[$2], array[$3::bigint], '{42}', array[$4::integer], '{1}', '{1}', false)`,
      [a.id, kind, key, life],
    )
    // What is not there has no row.
    return row?.verdict ?? 'gone'
  }
  // Twice, as when the first answer was lost.
  const answers = [await turn('cancel'), await turn('cancel'), await turn('try'), await turn('wait')]
  expect(answers).toEqual(['gone', 'gone', 'gone', 'gone'])
  await using _permit = await a.limits.acquire('x', { max: 1 })
})
