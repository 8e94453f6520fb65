import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'
import type { Direction } from '../fault/silent-proxy.js'
import { freshDatabase } from '../setup/database.js'
import { until, Witness } from '../setup/facts.js'
import { Fleet } from './fleet.js'
import { type Ending, judge, readHistory } from './history.js'
import { type Random, randomFrom } from './random.mjs'
import { countOf, seedOf } from './seed.js'

// Several processes walk at random while everything happens to them that can. What must be true is in history.ts, and:
// when they come to rest, nothing is held; when they close, nothing is left.

const expiryMs = 2_000
const leftovers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const remove of leftovers.splice(0).reverse()) await remove()
})

interface World {
  readonly name: string
  readonly fleet: Fleet
  readonly witness: Witness
  readonly random: Random
  readonly endings: Ending[]
}

function build(name: string, url: string, size: number, seed: number): World {
  const fleet = new Fleet(url, size, expiryMs)
  const witness = new Witness(url)
  leftovers.push(async () => {
    await fleet.destroy()
    await witness.close()
  })
  return { name, fleet, witness, random: randomFrom(seed), endings: [] }
}

/** Which part of the locks is kept for long, and for how long: a fault must strike them, and outlast the expiry. */
interface Holds {
  readonly long: number
  readonly longMs: number
}

/** One schedule: everybody walks, `faults` happen, everybody comes to rest; then nothing may be held. */
async function run(world: World, schedule: number, holds: Holds, faults: () => Promise<void>): Promise<void> {
  const { fleet, witness, random } = world
  const names = Array.from({ length: 1 + random.below(4) }, (_, i) => `${world.name}/${schedule}/${i}`)
  for (const actor of fleet.actors) {
    actor.isCutOff = false
    const seed = random.below(2 ** 31)
    actor.order('walk', { schedule, names, holds, seed, flowCount: 1 + random.below(4) })
  }
  await faults()
  for (const actor of fleet.actors) actor.thaw()
  await Promise.all(fleet.actors.filter((actor) => actor.isAlive).map((actor) => actor.rest()))
  await until(
    `nothing is held after schedule ${schedule} of ${world.name}`,
    async () => (await witness.locks().catch(() => [1])).length === 0,
    expiryMs + 3_000,
  )
}

/** Closes the fleet, and proves what its histories tell. Answers with how many beliefs there were. */
async function conclude({ fleet, witness, name, endings }: World, atLeast: number): Promise<string> {
  await fleet.fill()
  await fleet.close()
  await until(`no session of ${name} is left`, async () => (await witness.sessions()).length === 0, expiryMs + 3_000)
  const { beliefs, unexpected } = readHistory(fleet.histories)
  expect(unexpected.join('\n')).toBe('')
  const { violations, longestNewsMs } = judge(beliefs, endings)
  expect(violations.join('\n')).toBe('')
  expect(beliefs.length).toBeGreaterThan(atLeast)
  const told = beliefs.filter(({ toldAt }) => toldAt !== undefined).length
  return `${name}: ${beliefs.length} beliefs, ${told} ended by a loss (the latest news ${longestNewsMs.toFixed(1)} ms after the next grant), ${fleet.histories.length} processes`
}

/** Notes what the controller takes away while it does. */
async function ending(worlds: readonly World[], pid: Ending['pid'], work: () => Promise<unknown>): Promise<void> {
  const from = process.hrtime.bigint()
  const endings = worlds.map((world) => {
    const ending: Ending = { pid, from, to: from + 60_000_000_000n }
    world.endings.push(ending)
    return ending
  })
  await work()
  for (const ending of endings) ending.to = process.hrtime.bigint()
}

async function terminateOne(world: World): Promise<void> {
  const { fleet, witness, random } = world
  const actor = random.pick(fleet.actors)
  if (actor.isCutOff) return
  const sessions = await witness.sessions(actor.instanceId).catch(() => [])
  if (sessions.length === 0) return
  await ending([world], actor.child.pid!, () => witness.terminate(random.pick(sessions)).catch(() => {}))
}

const lightCount = countOf(204, 228)

test(`${lightCount} schedules of acquire, release, timeout, abort, kill and ended backends`, {
  timeout: 0,
}, async () => {
  const seed = seedOf('light faults')
  const databases = await Promise.all(Array.from({ length: 3 }, () => freshDatabase()))
  for (const database of databases) leftovers.push(() => database.drop())
  const worlds = databases.map(({ url }, i) => build(`light-${i}`, url, 3, seed + i))
  const perWorld = Math.ceil(lightCount / worlds.length)
  const told = await Promise.all(
    worlds.map(async (world) => {
      for (let schedule = 0; schedule < perWorld; schedule++) {
        await world.fleet.fill()
        await run(world, schedule, { long: 0.1, longMs: 150 }, () => lightFaults(world))
      }
      return conclude(world, perWorld)
    }),
  )
  console.log(told.join('\n'))
})

async function lightFaults(world: World): Promise<void> {
  const { fleet, random } = world
  for (let moment = 0; moment < 4; moment++) {
    await sleep(random.below(100))
    const fault = random.fraction()
    if (fault < 0.25) await terminateOne(world)
    else if (fault < 0.33) await random.pick(fleet.actors).kill()
  }
}

const heavyCount = countOf(24, 228)
const silences: Direction[][] = [['to-server', 'to-client'], ['to-server'], ['to-client']]

test(`${heavyCount} schedules of freezes, silent networks and restarts of the server`, { timeout: 0 }, async () => {
  const seed = seedOf('heavy faults')
  const random = randomFrom(seed)
  const server = await startEmbedded({
    binDir: process.env.HOLDFAST_TEST_PG_BIN || undefined,
    settings: { fsync: 'off', max_connections: '200' },
  })
  leftovers.push(() => server.stop('immediate'))
  const urls = await Promise.all(Array.from({ length: 4 }, (_, i) => server.createDatabase(`heavy_${i}`)))
  const worlds = urls.map((url, i) => build(`heavy-${i}`, url, 3, seed + 1 + i))
  const rounds = Math.ceil(heavyCount / worlds.length)
  for (let round = 0; round < rounds; round++) {
    await Promise.all(worlds.map(({ fleet }) => fleet.fill()))
    // Also while somebody is frozen or cut off.
    const restarts = round % 3 === 2 ? restartNow(server, worlds, random) : Promise.resolve()
    await Promise.all([
      restarts,
      ...worlds.map((world) => run(world, round, { long: 0.2, longMs: 2 * expiryMs }, () => heavyFaults(world))),
    ])
  }
  console.log((await Promise.all(worlds.map((world) => conclude(world, rounds)))).join('\n'))
})

async function restartNow(server: EmbeddedServer, worlds: World[], random: Random): Promise<void> {
  for (let times = 1 + random.below(2); times > 0; times--) {
    await sleep(random.below(2_500))
    await ending(worlds, 'all', () => server.restart(random.pick(['fast', 'immediate'])))
  }
}

async function heavyFaults(world: World): Promise<void> {
  const { fleet, random } = world
  for (let moment = 0; moment < 5; moment++) {
    await sleep(random.below(1_200))
    const actor = random.pick(fleet.actors)
    const fault = random.fraction()
    if (fault < 0.35) actor.freeze()
    else if (fault < 0.5) actor.thaw()
    else if (fault < 0.8) actor.silence(random.pick(silences))
    else if (fault < 0.9) await terminateOne(world)
    else await actor.kill()
  }
  // Longer than the expiry: whoever is still frozen or silent now loses everything.
  if (random.chance(0.7)) await sleep(expiryMs + random.below(800))
}
