// Tests presence by a row: how an instance without an anchor shows that it is alive.

import { expect, onTestFinished, test } from 'vitest'
import { Events } from '../../src/base/index.js'
import { ClosedError, DatabaseUnreachableError } from '../../src/index.js'
import { type FleetInstance, Observer } from '../../src/observe/index.js'
import { InstanceName, openPgPool, RowPresence } from '../../src/postgres/index.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { caught, sql, sqlSession, stays, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'

const expiryMs = 2_000

function presenceAt(url: string): { presence: RowPresence; close(): Promise<void> } {
  const database = openPgPool({ connectionString: url })
  const presence = new RowPresence({
    database,
    schema: 'holdfast',
    namespace: 'rows',
    name: new InstanceName(undefined, new Events()),
    retainDays: 7,
    expiryMs,
    version: '0.0.0',
    events: new Events(),
  })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= presence.close().then(() => database.close())
    return closed
  }
  onTestFinished(close)
  return { presence, close }
}

async function isPresent(url: string, number: number): Promise<boolean> {
  const [row] = await sql<{ present: boolean }>(url, 'select holdfast.is_present($1) as present', [number])
  return row!.present
}

const rowsOf = (url: string) => sql(url, 'select id, reconnects, session, expires_at from holdfast.instance')

async function instancesOf(url: string): Promise<readonly FleetInstance[]> {
  const database = openPgPool({ connectionString: url })
  try {
    return (await new Observer(database).fleet.list()).rows
  } finally {
    await database.close()
  }
}

const lost = (epoch: { onLoss(listener: (reason: Error) => void): unknown }) =>
  new Promise<{ reason: Error }>((resolve) => epoch.onLoss((reason) => resolve({ reason })))

test('an instance without an anchor has no row while it needs no presence', async () => {
  const url = await databaseUrl()
  const instance = await open({ url, anchor: 'none' })
  await instance.leases.with('name', () => {})
  expect(await rowsOf(url)).toEqual([])
})

test('a presence has a row that is renewed, and that is deleted on close', async () => {
  const url = await databaseUrl()
  const { presence } = presenceAt(url)
  expect(presence.epoch).toBeUndefined()
  const [epoch, same] = await Promise.all([presence.whenPresent(), presence.whenPresent()])
  expect(same).toBe(epoch)
  expect(presence.epoch).toBe(epoch)
  expect(await isPresent(url, epoch.number)).toBe(true)
  expect(await isPresent(url, epoch.number + 1)).toBe(false)
  const [row] = await rowsOf(url)
  await until('the row is renewed', async () => (await rowsOf(url))[0]!.expires_at! > row!.expires_at!)
  await stays('the epoch is trusted beyond its expiry', () => epoch.trusted, 1.2 * expiryMs)
  expect(await isPresent(url, epoch.number)).toBe(true)
  const [seen] = await instancesOf(url)
  expect(seen).toMatchObject({ id: presence.instanceId, alive: true, pid: null, pooler: 'any', osPid: process.pid })
  await presence.close()
  expect(epoch.trusted).toBe(false)
  expect(await isPresent(url, epoch.number)).toBe(false)
  expect(await rowsOf(url)).toEqual([])
  await caught(ClosedError, presence.whenPresent())
})

test('a presence whose row is deleted is lost at the next renewal, and comes back with a new number', async () => {
  const url = await databaseUrl()
  const { presence } = presenceAt(url)
  const epoch = await presence.whenPresent()
  const isOver = lost(epoch)
  await sql(url, 'delete from holdfast.instance')
  const { reason } = await within(15_000, 'The loss', isOver)
  expect(reason.message).toBe('The presence of this instance has expired, or the server has restarted')
  expect([epoch.trusted, epoch.loss, presence.epoch]).toEqual([false, reason, undefined])
  const next = await within(5_000, 'The next epoch', presence.whenPresent())
  expect(next.number).not.toBe(epoch.number)
  expect(await isPresent(url, epoch.number)).toBe(false)
  expect(await isPresent(url, next.number)).toBe(true)
})

test('a presence whose row has expired is lost at the next renewal', async () => {
  const url = await databaseUrl()
  const { presence } = presenceAt(url)
  const epoch = await presence.whenPresent()
  const isOver = lost(epoch)
  await sql(url, 'update holdfast.instance set expires_at = clock_timestamp()')
  expect(await isPresent(url, epoch.number)).toBe(false)
  expect((await instancesOf(url))[0]).toMatchObject({ alive: false })
  await within(15_000, 'The loss', isOver)
})

for (const direction of ['to-server', 'to-client'] as const) {
  test(`a presence is lost before its row expires during silence ${direction}, and comes back afterwards`, async () => {
    const url = await databaseUrl()
    const proxy = await SilentProxy.before(url)
    onTestFinished(() => proxy.close())
    const { presence } = presenceAt(proxy.through(url))
    const epoch = await presence.whenPresent()
    const isOver = lost(epoch)
    const session = await sqlSession(url)
    // New connections are silent too.
    proxy.onConnection = (link) => link.silence(direction)
    proxy.silence(direction)
    const askedAt = performance.now()
    const { rows } = await session.query<{ left: number }>(
      'select (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left from holdfast.instance',
    )
    // Compares measured times, because a query at the moment of the loss may be too late. The event may be late too, on a busy machine, but
    // the epoch is not trusted meanwhile.
    let trustedAt = askedAt
    const watching = setInterval(() => {
      const now = performance.now()
      if (epoch.trusted) trustedAt = now
    }, 5)
    onTestFinished(() => clearInterval(watching))
    const { reason } = await within(15_000, 'The loss', isOver)
    expect(trustedAt - askedAt).toBeLessThan(rows[0]!.left)
    expect(trustedAt - askedAt).toBeGreaterThan(0)
    expect(reason).toBeInstanceOf(DatabaseUnreachableError)
    expect(reason.message).toMatch(/^No renewal has succeeded for .*, so the presence may expire at any moment$/)
    await until('the row expires', async () => !(await isPresent(url, epoch.number)))
    proxy.onConnection = () => {}
    const next = await within(15_000, 'The next epoch', presence.whenPresent())
    expect(next.number).not.toBe(epoch.number)
  })
}

test('a presence begins although the network became silent while the server held the lock on the name', async () => {
  const url = await databaseUrl()
  const proxy = await SilentProxy.before(url)
  onTestFinished(() => proxy.close())
  const { presence } = presenceAt(proxy.through(url))
  const swallowed = proxy.swallowReplyTo('insert into holdfast.instance\n')
  const present = presence.whenPresent()
  await swallowed
  // The server does not notice that the client discards the connection.
  proxy.silence('to-server', 'to-client')
  await within(30_000, 'The presence', present)
}, 60_000)

test('a presence is not trusted after the event loop was blocked for longer than its expiry', async () => {
  const url = await databaseUrl()
  const { presence } = presenceAt(url)
  const epoch = await presence.whenPresent()
  const from = performance.now()
  while (performance.now() - from < expiryMs) Math.sqrt(2)
  expect(epoch.trusted).toBe(false)
  expect(presence.epoch).toBeUndefined()
})

test('a wait for a presence ends with its signal, and with the close', async () => {
  const url = await databaseUrl()
  await sql(url, 'alter table holdfast.instance rename to away')
  const { presence } = presenceAt(url)
  const abort = new AbortController()
  const waiting = presence.whenPresent(abort.signal)
  const reason = new Error('enough')
  abort.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  const other = presence.whenPresent().catch((error) => error)
  await within(5_000, 'Closing the presence', presence.close())
  expect(await other).toBeInstanceOf(ClosedError)
})

test('a close during the grace period of a restart leaves no row and no timer behind', async () => {
  const url = await databaseUrl()
  await sql(
    url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation)
     values ('frozen', 'frozen', 'rows', 0, 'host', 1, '0.0.0', 3600000, 'none', -1)`,
  )
  await sql(url, 'update holdfast.server_generation set began_at = now()')
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  const { presence, close } = presenceAt(url)
  const waiting = presence.whenPresent().catch((error) => error)
  await until('the instance is recorded', async () => (await rowsOf(url)).length === 2)
  await within(5_000, 'Closing the presence', presence.close())
  expect(await waiting).toBeInstanceOf(ClosedError)
  expect((await rowsOf(url)).map(({ id }) => id)).toEqual(['frozen'])
  // Idle connections have their own timers.
  await close()
  expect(timers() - before).toBeLessThanOrEqual(0)
})

test('a presence is lost when the server restarts, and comes back with a new number', { timeout: 60_000 }, async () => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  const { presence } = presenceAt(url)
  const epoch = await presence.whenPresent()
  const isOver = lost(epoch)
  await server.restart('immediate')
  await within(15_000, 'The loss', isOver)
  const next = await within(15_000, 'The next epoch', presence.whenPresent())
  expect(next.number).not.toBe(epoch.number)
  expect(await isPresent(url, epoch.number)).toBe(false)
  expect(await isPresent(url, next.number)).toBe(true)
})
