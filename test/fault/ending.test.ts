import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Actor } from '../property/fleet.js'
import { until } from '../setup/facts.js'
import { expiryMs, openDatabase } from './fixture.js'

test('a process that has closed in a silent network ends by itself', async () => {
  const { url } = await openDatabase()
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-ending-'))
  onTestFinished(async () => rmSync(directory, { recursive: true }))
  const actor = await Actor.start(url, { room: 'locks', expiryMs, anchor: 'required' }, join(directory, 'history'), 0)
  onTestFinished(() => actor.kill())
  actor.proxy.silence('to-server', 'to-client')
  await actor.close()
  expect(actor.child.process.exitCode).toBe(0)
})

test('a process that was frozen in silence and has closed ends by itself', async () => {
  const { url, witness } = await openDatabase()
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-ending-'))
  onTestFinished(async () => rmSync(directory, { recursive: true }))
  const actor = await Actor.start(url, { room: 'locks', expiryMs, anchor: 'required' }, join(directory, 'history'), 0)
  onTestFinished(() => actor.kill())
  await until('its last heartbeat was answered', async () => {
    const last = 'select pg_backend_pid(), holdfast.generation_began()'
    const idle = await witness.query(`select from pg_stat_activity where state = 'idle' and query = $1`, [last])
    return idle.length > 0
  })
  // In silence nothing but its timers can speak when it is thawed.
  actor.proxy.silence('to-server', 'to-client')
  actor.freeze()
  await until('the server has ended its session', async () => (await witness.sessions()).length === 0)
  actor.thaw()
  await until('it has begun a new life', async () => (await witness.sessions()).length > 0)
  await actor.close()
  expect(actor.child.process.exitCode).toBe(0)
})
