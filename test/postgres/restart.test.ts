// A server that crashes and comes back: everything is declared lost, everybody comes back by himself, fences grow.

import { expect, test } from 'vitest'
import { DatabaseUnreachableError, LockLostError } from '../../src/holdfast.js'
import { caught, sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { untilWaiting } from '../setup/locking.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'

test.each(['immediate', 'fast'] as const)('%s', async (mode) => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  const [a, b] = [await open({ url }), await open({ url })]
  const held = await a.locks.acquire('held')
  const { signal } = held
  const waiting = b.locks.acquire('held')
  await untilWaiting(url, held.keys[0]!)
  const fences = await Promise.all(Array.from({ length: 100 }, (_, at) => b.locks.with(`${at}`, ({ fence }) => fence)))

  await server.restart(mode)

  await until('the loss is told', () => signal.aborted)
  expect(signal.reason).toBeInstanceOf(LockLostError)
  expect(signal.reason.cause).toBeInstanceOf(DatabaseUnreachableError)
  expect(held.held).toBe(false)
  await using lock = await waiting
  expect(lock.fence).toBeGreaterThan(Math.max(held.fence, ...fences))
  expect(await a.locks.tryAcquire('held', { wait: '1s' })).toBeNull()
  await until('both live again', async () => {
    // Not by their count of lives: the crash may have forgotten the rows of the first.
    const rows = await sql(url, 'select from holdfast.instance where life_since > pg_postmaster_start_time()')
    return rows.length === 2
  })
})

test('while the server is away, who would not wait is told, and who waits may give up', async () => {
  const server = await ownServer()
  const instance = await open({ url: await ownDatabase(server) })
  const lock = await instance.locks.acquire('held')
  const { signal } = lock
  await server.stop('immediate')
  await until('the loss is told', () => signal.aborted)
  await caught(DatabaseUnreachableError, instance.locks.tryAcquire('name'))
  const controller = new AbortController()
  const waiting = instance.locks.acquire('name', { signal: controller.signal })
  const timed = instance.locks.tryAcquire('name', { wait: 200 })
  controller.abort('enough')
  await expect(waiting).rejects.toBe('enough')
  expect(await timed).toBeNull()
  await lock.release()
  await instance.close()
})
