import { onTestFinished, test } from 'vitest'
import { freshDatabase } from '../setup/database.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { runsAll } from '../setup/variants.js'
import { build, runHeavyFaults, runLightFaults } from './cluster.js'
import { proofs } from './proofs.js'
import { randomFrom } from './random.ts'
import { countOf, seedOf } from './seed.js'

// Several processes acquire and release locks at random under all faults. history.ts contains the rule for their holds. In addition, nothing may be
// held after the processes have finished, and no session may be left after they have closed.

const opening = { room: 'locks', anchor: 'required' } as const
const lightCount = countOf(24, 60)

test(`locks have one holder in ${lightCount} schedules of timeouts, aborts, kills and ended sessions`, {
  timeout: 0,
}, async () => {
  const seed = seedOf('light faults')
  const clusters = []
  for (let i = 0; i < 3; i++) {
    const database = await freshDatabase()
    onTestFinished(() => database.drop())
    clusters.push(await build({ name: `light-${i}`, url: database.url, opening, seed: seed + i, proof: proofs.locks }))
  }
  await runLightFaults(clusters, lightCount)
})

const heavyCount = countOf(4, 60)

test.skipIf(!runsAll)(
  `locks have one holder in ${heavyCount} schedules of freezes, silent networks and restarts of the server`,
  {
    timeout: 0,
  },
  async () => {
    const seed = seedOf('heavy faults')
    const server = await ownServer({ fsync: 'off', max_connections: '200' })
    const clusters = []
    for (let i = 0; i < 4; i++) {
      const url = await ownDatabase(server, `heavy_${i}`)
      clusters.push(await build({ name: `heavy-${i}`, url, opening, seed: seed + 1 + i, proof: proofs.locks }))
    }
    await runHeavyFaults(clusters, heavyCount, server, randomFrom(seed))
  },
)
