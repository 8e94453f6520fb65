import { onTestFinished, test } from 'vitest'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { freshDatabase } from '../setup/database.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { runsAll } from '../setup/variants.js'
import { build, runHeavyFaults, runLightFaults } from './cluster.js'
import type { Opening } from './fleet.js'
import { proofs } from './proofs.js'
import { randomFrom } from './random.ts'
import { countOf, seedOf } from './seed.js'

// Random operations in the rooms that use locks, leases and presence, with an anchor, without an anchor, and through a pooler in transaction mode.

const rooms: Exclude<Opening['room'], 'locks'>[] = ['leases', 'either', 'elections', 'limits', 'once', 'shares']
const usual = 32
const lightCount = countOf(12, usual)

test(`holds in ${rooms.join(', ')} do not overlap in ${lightCount} schedules of kills and ended sessions`, {
  timeout: 0,
}, async () => {
  const seed = seedOf('light faults in rooms')
  const clusters = []
  for (const [at, room] of rooms.entries()) {
    const database = await freshDatabase()
    onTestFinished(() => database.drop())
    const opening = { room, anchor: 'required' } as const
    clusters.push(await build({ name: room, url: database.url, opening, seed: seed + at, proof: proofs[room] }))
  }
  await runLightFaults(clusters, lightCount)
})

// Session locks do not exist behind such a pooler.
const pooledRooms = rooms.filter((room) => room !== 'either')
const pooledCount = countOf(4, usual)

test.skipIf(!runsAll || withoutPgBouncer)(
  `holds in ${pooledRooms.join(', ')} do not overlap in ${pooledCount} schedules without an anchor through PgBouncer`,
  { timeout: 0 },
  async () => {
    const seed = seedOf('light faults behind a pooler')
    const pooler = await startPooler({ mode: 'transaction', backends: 8, roundRobin: true })
    const clusters = []
    for (const [at, room] of pooledRooms.entries()) {
      const { url, drop } = await freshDatabase()
      onTestFinished(drop)
      const name = `pooled-${room}`
      const opening = { room, anchor: 'none' } as const
      const setting = { name, url: pooler.through(url), directUrl: url, opening, seed: seed + at, proof: proofs[room] }
      clusters.push(await build(setting))
    }
    await runLightFaults(clusters, pooledCount)
  },
)

const heavyCount = Math.ceil(countOf(2, usual) / 2)
const anchors = ['required', 'none'] as const

test.skipIf(!runsAll).each(anchors)(
  `holds in ${rooms.join(', ')} do not overlap in ${heavyCount} schedules of freezes, silence and restarts (anchor: %s)`,
  { timeout: 0 },
  async (anchor) => {
    const seed = seedOf(`heavy faults in rooms, anchor: ${anchor}`)
    // With fsync, so that acknowledged commits survive the crashes.
    const server = await ownServer({ max_connections: '400' })
    const clusters = []
    for (const [at, room] of (anchor === 'none' ? pooledRooms : rooms).entries()) {
      const name = `heavy-${room}`
      const url = await ownDatabase(server, name)
      clusters.push(await build({ name, url, opening: { room, anchor }, seed: seed + at, proof: proofs[room] }))
    }
    await runHeavyFaults(clusters, heavyCount, server, randomFrom(seed))
  },
)
