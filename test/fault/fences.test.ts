import pg from 'pg'
import { expect, test } from 'vitest'
import { sql, until, within } from '../setup/facts.js'
import { openInstance, openProxy, openServer } from './fixture.js'

// A crash of the server loses WAL that was not flushed, including the values of sequences. This server never flushes on its own.

const lazy = { wal_writer_delay: '10s', wal_writer_flush_after: '1GB', checkpoint_timeout: '1h' }

test('fences grow across several crashes in quick succession', async () => {
  const { server, url } = await openServer(lazy)
  const a = await openInstance(url)
  let last = 0
  for (let crash = 0; crash < 4; crash++) {
    for (let draw = 0; draw < 70; draw++) {
      const lock = await within(10_000, 'A grant', a.locks.acquire('x'))
      expect(lock.fence).toBeGreaterThan(last)
      last = lock.fence
      await lock.release()
    }
    await server.restart('immediate')
  }
})

test('a wait connection that opens right after a crash does not draw an earlier fence', async () => {
  const { server, url, witness } = await openServer(lazy)
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url), { expiry: '6s' }), await openInstance(url)]
  await b.locks.acquire('x')
  let last = 0
  for (let draw = 0; draw < 200; draw++) {
    const lock = await a.locks.acquire('y')
    last = lock.fence
    await lock.release()
  }
  const connecting = new Promise<() => void>((reached) => {
    proxy.onConnection = () => new Promise<void>((go) => reached(go))
  })
  const waiting = a.locks.acquire('x')
  const go = await connecting
  // The anchor is not notified of the crash, as if the host disappeared and another host took over its address.
  proxy.silence('to-server', 'to-client')
  await b.close()
  await server.restart('immediate')
  const rows = await until('the server is back', () => witness.query('select 1').catch(() => undefined))
  expect(rows).toHaveLength(1)
  go()
  const granted = await within(10_000, 'The grant', waiting)
  expect(granted.fence).toBeGreaterThan(last)
  await granted.release()
})

test('a job id that a crash has lost is not used again', async () => {
  const { server, url } = await openServer(lazy)
  const instance = await openInstance(url)
  const enqueue = async (address: string) => {
    const client = new pg.Client({ connectionString: address })
    await client.connect()
    await client.query('set synchronous_commit = off')
    const ids: number[] = []
    for (let draw = 0; draw < 70; draw++) {
      const { rows } = await client.query("select holdfast.enqueue('default', 'mail', '{}') as id")
      ids.push(Number(rows[0].id))
    }
    await client.end()
    return ids
  }
  const before = await enqueue(url)
  await instance.close()
  await server.restart('immediate')
  const [left] = await until('the server is back', () =>
    sql<{ jobs: number }>(url, 'select count(*)::integer as jobs from holdfast.job_live').catch(() => undefined),
  )
  // The test is meaningful only if the crash has lost jobs.
  expect(left!.jobs).toBeLessThan(before.length)
  const first = await enqueue(url)
  expect(Math.min(...first)).toBeGreaterThan(Math.max(...before))
  await openInstance(url)
  expect(Math.min(...(await enqueue(url)))).toBeGreaterThan(Math.max(...first))
})
