import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import type { EmbeddedServer } from '../../src/embedded/index.js'
import type { Direction } from '../fault/silent-proxy.js'
import { until, Witness } from '../setup/facts.js'
import { Fleet, type Opening } from './fleet.js'
import { type Answer, type Ending, type Hold, judge, readHistory, type Verdict } from './history.js'
import { type Random, randomFrom } from './random.ts'

/** The shortest expiry that there is. */
const expiryMs = 2_000

/** What must be true of a room, beyond what is true of all. */
export interface Proof {
  /** Rows for what is still held when all have come to rest. */
  readonly held: string
  readonly judge?: (holds: readonly Hold[], endings: readonly Ending[]) => Verdict
  /** What the room needs in the database before anybody walks. */
  readonly prepare?: string
  /** Looks at what the schedules have left in the database, and answers with what is wrong. */
  readonly wrong?: (witness: Witness, answers: readonly Answer[]) => Promise<string[]>
}

/** A fleet on a database of its own, and what happens to it. */
export interface Cluster {
  readonly name: string
  readonly fleet: Fleet
  readonly witness: Witness
  readonly random: Random
  readonly endings: Ending[]
  readonly proof: Proof
}

interface Setting {
  readonly name: string
  /** Where the actors connect. */
  readonly url: string
  /** Past a pooler, where there is one. */
  readonly directUrl?: string
  readonly opening: Omit<Opening, 'expiryMs'>
  readonly seed: number
  readonly proof: Proof
}

export async function build({ name, url, directUrl = url, opening, seed, proof }: Setting): Promise<Cluster> {
  const fleet = new Fleet(url, 3, { ...opening, expiryMs })
  const witness = new Witness(directUrl)
  onTestFinished(async () => {
    await fleet.destroy()
    await witness.close()
  })
  if (proof.prepare) await witness.query(proof.prepare)
  return { name, fleet, witness, random: randomFrom(seed), endings: [], proof }
}

/** Which part of what is taken is kept for long, and for how long: a fault must strike it, and outlast the expiry. */
interface Holds {
  readonly long: number
  readonly longMs: number
}

const lightHolds: Holds = { long: 0.1, longMs: 150 }
const heavyHolds: Holds = { long: 0.2, longMs: 2 * expiryMs }

/** One schedule: everybody walks, `faults` happen, everybody comes to rest; then nothing may be held. */
async function run(world: Cluster, schedule: number, holds: Holds, faults: () => Promise<void>): Promise<void> {
  const { fleet, witness, random, proof } = world
  const names = Array.from({ length: 1 + random.below(4) }, (_, i) => `${world.name}/${schedule}/${i}`)
  for (const actor of fleet.actors) {
    actor.isCutOff = false
    const seed = random.below(2 ** 31)
    actor.order('walk', { schedule, names, holds, seed, flowCount: 1 + random.below(4) })
  }
  // A busy machine may take longer to begin than all the faults take.
  if (schedule === 0) await until(`somebody of ${world.name} is granted something`, () => hasWalked(fleet))
  await faults()
  for (const actor of fleet.actors) actor.thaw()
  await Promise.all(fleet.actors.filter((actor) => actor.isAlive).map((actor) => actor.rest()))
  await until(
    `nothing is held after schedule ${schedule} of ${world.name}`,
    async () => (await witness.query(proof.held).catch(() => [1])).length === 0,
    // What was asked for on a connection that fell silent is given back when that is found out.
    expiryMs + 15_000,
  )
}

function hasWalked({ histories }: Fleet): boolean {
  const { holds, answers } = readHistory(histories)
  return holds.length + answers.length > 0
}

/** When no world walks any more: to judge one takes the process so long that the faults of the others would come late. */
async function concludeAll(worlds: readonly Cluster[]): Promise<void> {
  console.log((await Promise.all(worlds.map(conclude))).join('\n'))
}

/** Closes the fleet, and proves what its histories tell. Answers with how many holds there were. */
async function conclude(world: Cluster): Promise<string> {
  const { fleet, witness, name, endings, proof } = world
  await fleet.fill()
  await fleet.close()
  await until(`no session of ${name} is left`, async () => (await witness.sessions()).length === 0)
  const { holds, answers, unexpected } = readHistory(fleet.histories)
  expect(unexpected.join('\n')).toBe('')
  const { violations, longestNewsMs } = (proof.judge ?? judge)(holds, endings)
  expect(violations.join('\n')).toBe('')
  expect((await proof.wrong?.(witness, answers))?.join('\n') ?? '').toBe('')
  expect(holds.length + answers.length).toBeGreaterThan(0)
  const told = holds.filter(({ toldAt }) => toldAt !== undefined).length
  return `${name}: ${answers.length ? `${answers.length} answers, ` : ''}${holds.length} holds, ${told} ended by a loss (the latest news ${longestNewsMs.toFixed(1)} ms after the next grant), ${fleet.histories.length} processes`
}

/** Notes what the controller takes away while it does. */
async function ending(worlds: readonly Cluster[], pid: Ending['pid'], work: () => Promise<unknown>): Promise<void> {
  const from = process.hrtime.bigint()
  const endings = worlds.map((world) => {
    const ending: Ending = { pid, from, to: from + 60_000_000_000n }
    world.endings.push(ending)
    return ending
  })
  await work()
  for (const ending of endings) ending.to = process.hrtime.bigint()
}

/** Ends a session of an actor, or one of the pools, which nothing may depend on. */
async function terminateOne(world: Cluster): Promise<void> {
  const { fleet, witness, random } = world
  const actor = random.pick(fleet.actors)
  if (actor.isCutOff) return
  const own = await witness.sessions(actor.instanceId).catch(() => [])
  if (own.length > 0 && random.chance(0.7)) {
    await ending([world], actor.child.process.pid!, () => witness.terminate(random.pick(own)).catch(() => {}))
    return
  }
  const pooled = await witness.pooledSessions().catch(() => [])
  if (pooled.length > 0) await witness.terminate(random.pick(pooled)).catch(() => {})
}

async function lightFaults(world: Cluster): Promise<void> {
  const { fleet, random } = world
  for (let moment = 0; moment < 4; moment++) {
    await sleep(random.below(100))
    const fault = random.fraction()
    if (fault < 0.25) await terminateOne(world)
    else if (fault < 0.33) await random.pick(fleet.actors).kill()
  }
}

const silences: Direction[][] = [['to-server', 'to-client'], ['to-server'], ['to-client']]

async function heavyFaults(world: Cluster): Promise<void> {
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

/** The server of several worlds goes away and comes back, once or twice. */
async function restartNow(server: EmbeddedServer, worlds: Cluster[], random: Random): Promise<void> {
  for (let times = 1 + random.below(2); times > 0; times--) {
    await sleep(random.below(2_500))
    await ending(worlds, 'all', () => server.restart(random.pick(['fast', 'immediate'])))
  }
}

/** `count` schedules of light faults, divided among the worlds, which go on side by side. */
export async function walkLightly(worlds: readonly Cluster[], count: number): Promise<void> {
  const perWorld = Math.ceil(count / worlds.length)
  await Promise.all(
    worlds.map(async (world) => {
      for (let schedule = 0; schedule < perWorld; schedule++) {
        await world.fleet.fill()
        await run(world, schedule, lightHolds, () => lightFaults(world))
      }
    }),
  )
  await concludeAll(worlds)
}

/** `count` schedules of heavy faults, and in every third round the restart of the server that the worlds share. */
export async function walkHeavily(
  worlds: Cluster[],
  count: number,
  server: EmbeddedServer,
  random: Random,
): Promise<void> {
  const rounds = Math.ceil(count / worlds.length)
  for (let round = 0; round < rounds; round++) {
    await Promise.all(worlds.map(({ fleet }) => fleet.fill()))
    // Also while somebody is frozen or cut off.
    const restarts = round % 3 === 2 ? restartNow(server, worlds, random) : Promise.resolve()
    await Promise.all([restarts, ...worlds.map((world) => run(world, round, heavyHolds, () => heavyFaults(world)))])
  }
  await concludeAll(worlds)
}
