import { onTestFinished, test } from 'vitest'
import { freshDatabase } from '../setup/database.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { build, walkHeavily, walkLightly } from './cluster.js'
import { proofs } from './proofs.js'
import { randomFrom } from './random.ts'
import { countOf, seedOf } from './seed.js'

// Several processes take and release locks at random while everything happens to them that can. What must be true is in
// history.ts, and: when they come to rest, nothing is held; when they close, nothing is left.

const opening = { room: 'locks', anchor: 'required' } as const
const lightCount = countOf(24, 60)

test(`${lightCount} schedules of acquire, release, timeout, abort, kill and ended backends`, {
  timeout: 0,
}, async () => {
  const seed = seedOf('light faults')
  const worlds = []
  for (let i = 0; i < 3; i++) {
    const database = await freshDatabase()
    onTestFinished(() => database.drop())
    worlds.push(await build({ name: `light-${i}`, url: database.url, opening, seed: seed + i, proof: proofs.locks }))
  }
  await walkLightly(worlds, lightCount)
})

const heavyCount = countOf(4, 60)

test(`${heavyCount} schedules of freezes, silent networks and restarts of the server`, { timeout: 0 }, async () => {
  const seed = seedOf('heavy faults')
  const server = await ownServer({ fsync: 'off', max_connections: '200' })
  const worlds = []
  for (let i = 0; i < 4; i++) {
    const url = await ownDatabase(server, `heavy_${i}`)
    worlds.push(await build({ name: `heavy-${i}`, url, opening, seed: seed + 1 + i, proof: proofs.locks }))
  }
  await walkHeavily(worlds, heavyCount, server, randomFrom(seed))
})
