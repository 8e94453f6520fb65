import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Actor } from '../property/fleet.js'
import { until } from '../setup/facts.js'
import { expiryMs, openDatabase } from './fixture.js'

test('a process exits after it has closed Holdfast in a silent network', async () => {
  const { url } = await openDatabase()
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-ending-'))
  onTestFinished(async () => rmSync(directory, { recursive: true }))
  const actor = await Actor.start(url, { room: 'locks', expiryMs, anchor: 'required' }, join(directory, 'history'), 0)
  onTestFinished(() => actor.kill())
  actor.proxy.silence('to-server', 'to-client')
  await actor.close()
  expect(actor.child.process.exitCode).toBe(0)
})

test('a process exits after it was frozen in a silent network and has closed Holdfast', async () => {
  const { url, witness } = await openDatabase()
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-ending-'))
  onTestFinished(async () => rmSync(directory, { recursive: true }))
  const actor = await Actor.start(url, { room: 'locks', expiryMs, anchor: 'required' }, join(directory, 'history'), 0)
  onTestFinished(() => actor.kill())
  await until('its last heartbeat has completed', async () => {
    // A heartbeat can also contain the looks of the modules.
    const last = 'select pg_backend_pid(), holdfast.generation_began()%'
    const idle = await witness.query(`select from pg_stat_activity where state = 'idle' and query like $1`, [last])
    return idle.length > 0
  })
  // In a silent network, only timers can wake the thawed process.
  actor.proxy.silence('to-server', 'to-client')
  actor.freeze()
  await until('the server has ended its session', async () => (await witness.sessions()).length === 0)
  actor.thaw()
  await until('it has connected again', async () => (await witness.sessions()).length > 0)
  await actor.close()
  expect(actor.child.process.exitCode).toBe(0)
})
