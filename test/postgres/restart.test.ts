// Tests a server that crashes and comes back: everything is declared lost, each instance reconnects on its own, and fences
// grow.

import { expect, test } from 'vitest'
import { DatabaseUnreachableError, LockLostError } from '../../src/index.js'
import { caught, sql, sqlSession, stays, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { untilWaiting } from '../setup/locking.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'

test.each(['immediate', 'fast'] as const)(
  'instances lose their locks after a restart in mode %s, reconnect, and get larger fences',
  async (mode) => {
    const server = await ownServer()
    const url = await ownDatabase(server)
    const [a, b] = [await open({ url }), await open({ url })]
    const held = await a.locks.acquire('held')
    const { signal } = held
    const waiting = b.locks.acquire('held')
    await untilWaiting(url, held.keys[0]!)
    const fences = await Promise.all(
      Array.from({ length: 100 }, (_, at) => b.locks.with(`${at}`, ({ fence }) => fence)),
    )

    await server.restart(mode)

    await until('the loss is reported', () => signal.aborted)
    expect(signal.reason).toBeInstanceOf(LockLostError)
    expect(signal.reason.cause).toBeInstanceOf(DatabaseUnreachableError)
    expect(held.held).toBe(false)
    await using lock = await waiting
    expect(lock.fence).toBeGreaterThan(Math.max(held.fence, ...fences))
    expect(await a.locks.tryAcquire('held', { wait: '1s' })).toBeNull()
    await until('both instances have reconnected', async () => {
      // The number of reconnects does not show this, because the crash may have lost the rows of the first epochs.
      const rows = await sql(url, 'select from holdfast.instance where epoch_since > pg_postmaster_start_time()')
      return rows.length === 2
    })
  },
)

test('tryAcquire throws while the server is down, and a waiting acquire can be aborted', async () => {
  const server = await ownServer()
  const instance = await open({ url: await ownDatabase(server) })
  const lock = await instance.locks.acquire('held')
  const { signal } = lock
  await server.stop('immediate')
  await until('the loss is reported', () => signal.aborted)
  await caught(DatabaseUnreachableError, instance.locks.tryAcquire('name'))
  const controller = new AbortController()
  const waiting = instance.locks.acquire('name', { signal: controller.signal })
  const timed = caught(DatabaseUnreachableError, instance.locks.tryAcquire('name', { wait: 200 }))
  controller.abort('enough')
  await expect(waiting).rejects.toBe('enough')
  await timed
  await lock.release()
  await instance.close()
})

test('a session keeps its locks when the time zone and date style of the server change', async () => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  const instance = await open({ url, expiry: '2s' })
  const held = await instance.locks.acquire('held')
  await sql(url, "alter system set timezone = 'Asia/Tokyo'")
  await sql(url, "alter system set datestyle = 'SQL, DMY'")
  await sql(url, 'select pg_reload_conf()')
  await stays('the lock is held beyond its expiry', () => held.held, 3_000)
})

/** Returns the generation, and notices a new one. */
async function generation(url: string): Promise<number> {
  const [row] = await sql<{ generation: number }>(url, 'select holdfast.generation() as generation')
  return row!.generation
}

test('a crash of one process of the server begins a generation and repeats no fence', async () => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  const instance = await open({ url, expiry: '2s' })
  const before = await generation(url)
  const last = await instance.locks.with('name', ({ fence }) => fence)
  const startedAt = () => sql(url, 'select pg_postmaster_start_time()::text as started')
  const started = await startedAt()
  const victim = await sqlSession(url)
  const [{ pid }] = (await victim.query('select pg_backend_pid() as pid')).rows
  process.kill(pid, 'SIGKILL')
  await until('the generation is noticed', async () => (await generation(url).catch(() => 0)) > before)
  expect(await generation(url)).toBe(before + 1)
  // The postmaster has survived the crash.
  expect(await startedAt()).toEqual(started)
  expect(await instance.locks.with('name', { wait: '20s' }, ({ fence }) => fence)).toBeGreaterThan(last)
})

test('a reset of statistics begins no generation: presence continues, and grants do not wait', async () => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  const [anchored, without] = [await open({ url }), await open({ url, anchor: 'none' })]
  const before = await generation(url)
  const held = await anchored.locks.acquire('held')
  const lost: unknown[] = []
  without.on('instance.lost', (event) => lost.push(event))
  // The permit makes the instance present.
  await without.limits.with('limit', { max: 1 }, async () => {
    const [{ version }] = (await sql<{ version: number }>(
      url,
      "select current_setting('server_version_num')::integer / 10000 as version",
    )) as [{ version: number }]
    const targets = ['bgwriter', 'archiver', 'wal', ...(version >= 17 ? ['checkpointer', 'io', 'slru'] : [])]
    for (const target of targets) await sql(url, 'select pg_stat_reset_shared($1)', [target])
    if (version >= 17) await sql(url, 'select pg_stat_reset_shared()')
    await sql(url, 'select pg_stat_reset(), pg_stat_reset_slru(null)')
    const next = await without.leases.acquire('lease', { ttl: '5s', wait: '1s' })
    await next.release()
    const later = await open({ url })
    await later.locks.with('name', { wait: '1s' }, () => {})
    expect(await generation(url)).toBe(before)
    expect(held.held).toBe(true)
  })
  expect(lost).toEqual([])
})

test('a clean restart begins a generation', async () => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  await open({ url })
  const before = await generation(url)
  await server.restart('fast')
  expect(await generation(url)).toBe(before + 1)
})
