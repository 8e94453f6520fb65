import { onTestFinished, test } from 'vitest'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { freshDatabase } from '../setup/database.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { runsAll } from '../setup/variants.js'
import { build, walkHeavily, walkLightly } from './cluster.js'
import type { Opening } from './fleet.js'
import { proofs } from './proofs.js'
import { randomFrom } from './random.ts'
import { countOf, seedOf } from './seed.js'

// The same walks through the rooms that are made of locks, leases and presence, with an anchor, without one, and through
// a pooler in transaction mode.

const rooms: Exclude<Opening['room'], 'locks'>[] = ['leases', 'either', 'elections', 'limits', 'once', 'shares']
const usual = 32
const lightCount = countOf(12, usual)

test(`${lightCount} schedules of kills and ended backends through ${rooms.join(', ')}`, { timeout: 0 }, async () => {
  const seed = seedOf('light faults in rooms')
  const worlds = []
  for (const [at, room] of rooms.entries()) {
    const database = await freshDatabase()
    onTestFinished(() => database.drop())
    const opening = { room, anchor: 'required' } as const
    worlds.push(await build({ name: room, url: database.url, opening, seed: seed + at, proof: proofs[room] }))
  }
  await walkLightly(worlds, lightCount)
})

// Locks of sessions are no walk behind such a pooler.
const pooledRooms = rooms.filter((room) => room !== 'either')
const pooledCount = countOf(4, usual)

test.skipIf(withoutPgBouncer)(
  `${pooledCount} schedules without an anchor, through PgBouncer in transaction mode, through ${pooledRooms.join(', ')}`,
  { timeout: 0 },
  async () => {
    const seed = seedOf('light faults behind a pooler')
    const pooler = await startPooler({ mode: 'transaction', backends: 8, roundRobin: true })
    const worlds = []
    for (const [at, room] of pooledRooms.entries()) {
      const { url, drop } = await freshDatabase()
      onTestFinished(drop)
      const name = `pooled-${room}`
      const opening = { room, anchor: 'none' } as const
      const setting = { name, url: pooler.through(url), directUrl: url, opening, seed: seed + at, proof: proofs[room] }
      worlds.push(await build(setting))
    }
    await walkLightly(worlds, pooledCount)
  },
)

const heavyCount = Math.ceil(countOf(2, usual) / 2)
const anchors = ['required', 'none'] as const

// With an anchor, unless more is asked for.
test.each(heavyCount > 1 || runsAll ? anchors : anchors.slice(0, 1))(
  `${heavyCount} schedules of freezes, silent networks and restarts, anchor: %s, through ${rooms.join(', ')}`,
  { timeout: 0 },
  async (anchor) => {
    const seed = seedOf(`heavy faults in rooms, anchor: ${anchor}`)
    // Crashes are real here: what was answered must have been flushed.
    const server = await ownServer({ max_connections: '400' })
    const worlds = []
    for (const [at, room] of (anchor === 'none' ? pooledRooms : rooms).entries()) {
      const name = `heavy-${room}`
      const url = await ownDatabase(server, name)
      worlds.push(await build({ name, url, opening: { room, anchor }, seed: seed + at, proof: proofs[room] }))
    }
    await walkHeavily(worlds, heavyCount, server, randomFrom(seed))
  },
)
