import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import type { EmbeddedServer } from '../../src/embedded/index.js'
import type { Direction } from '../fault/silent-proxy.js'
import { until, Witness } from '../setup/facts.js'
import { Fleet, type Opening } from './fleet.js'
import { type Ending, type Hold, judge, type OnceResult, readHistory, type Verdict } from './history.js'
import { type Random, randomFrom } from './random.ts'

/** Minimum expiry. */
const expiryMs = 2_000

/** Checks of one room. */
export interface Proof {
  /** Query that returns a row for everything that is still held. */
  readonly held: string
  readonly judge?: (holds: readonly Hold[], endings: readonly Ending[]) => Verdict
  /** SQL that prepares the database for the room. */
  readonly prepare?: string
  /** Checks the database after the schedules. Returns a sentence for each violation. */
  readonly wrong?: (witness: Witness, answers: readonly OnceResult[]) => Promise<string[]>
}

/** A fleet with its own database. */
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
  /** URL for the actors. */
  readonly url: string
  /** URL without the pooler, if there is one. */
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

/** Share and maximum duration of long holds. */
interface Holds {
  readonly long: number
  readonly longMs: number
}

const lightHolds: Holds = { long: 0.1, longMs: 150 }
const heavyHolds: Holds = { long: 0.2, longMs: 2 * expiryMs }

/** Runs one schedule: all actors perform operations, the faults happen, and the actors finish. Then nothing may be held. */
async function run(cluster: Cluster, schedule: number, holds: Holds, faults: () => Promise<void>): Promise<void> {
  const { fleet, witness, random, proof } = cluster
  const names = Array.from({ length: 1 + random.below(4) }, (_, i) => `${cluster.name}/${schedule}/${i}`)
  for (const actor of fleet.actors) {
    actor.isCutOff = false
    const seed = random.below(2 ** 31)
    actor.order('walk', { schedule, names, holds, seed, flowCount: 1 + random.below(4) })
  }
  // On a busy machine, the first operation may take longer than all faults.
  if (schedule === 0) await until(`an actor of ${cluster.name} has a hold or a result`, () => hasOperated(fleet))
  await faults()
  for (const actor of fleet.actors) actor.thaw()
  await Promise.all(fleet.actors.filter((actor) => actor.isAlive).map((actor) => actor.finish()))
  await until(
    `nothing is held after schedule ${schedule} of ${cluster.name}`,
    async () => (await witness.query(proof.held).catch(() => [1])).length === 0,
    // A hold that was granted over a silent connection is returned when the silence is detected.
    expiryMs + 15_000,
  )
}

function hasOperated({ histories }: Fleet): boolean {
  const { holds, answers } = readHistory(histories)
  return holds.length + answers.length > 0
}

/** Checks all clusters after all have finished, because a check blocks this process and would delay the faults of other clusters. */
async function concludeAll(clusters: readonly Cluster[]): Promise<void> {
  console.log((await Promise.all(clusters.map(conclude))).join('\n'))
}

/** Closes the fleet and checks its histories. Returns a summary. */
async function conclude(cluster: Cluster): Promise<string> {
  const { fleet, witness, name, endings, proof } = cluster
  await fleet.fill()
  await fleet.close()
  await until(`no session of ${name} is left`, async () => (await witness.sessions()).length === 0)
  const { holds, answers, unexpected } = readHistory(fleet.histories)
  expect(unexpected.join('\n')).toBe('')
  const { violations, longestNotificationMs } = (proof.judge ?? judge)(holds, endings)
  expect(violations.join('\n')).toBe('')
  expect((await proof.wrong?.(witness, answers))?.join('\n') ?? '').toBe('')
  expect(holds.length + answers.length).toBeGreaterThan(0)
  const lost = holds.filter(({ notifiedAt }) => notifiedAt !== undefined).length
  return `${name}: ${answers.length ? `${answers.length} results, ` : ''}${holds.length} holds, ${lost} ended by a loss (the latest notification ${longestNotificationMs.toFixed(1)} ms after the next grant), ${fleet.histories.length} processes`
}

/** Records that the controller ends sessions while `work` runs. */
async function recordEnding(
  clusters: readonly Cluster[],
  pid: Ending['pid'],
  work: () => Promise<unknown>,
): Promise<void> {
  const from = process.hrtime.bigint()
  const endings = clusters.map((cluster) => {
    const ending: Ending = { pid, from, to: from + 60_000_000_000n }
    cluster.endings.push(ending)
    return ending
  })
  await work()
  for (const ending of endings) ending.to = process.hrtime.bigint()
}

/** Ends a session of an actor or of a pool. No hold may depend on sessions of pools. */
async function terminateOne(cluster: Cluster): Promise<void> {
  const { fleet, witness, random } = cluster
  const actor = random.pick(fleet.actors)
  if (actor.isCutOff) return
  const own = await witness.sessions(actor.instanceId).catch(() => [])
  if (own.length > 0 && random.chance(0.7)) {
    await recordEnding([cluster], actor.child.process.pid!, () => witness.terminate(random.pick(own)).catch(() => {}))
    return
  }
  const pooled = await witness.pooledSessions().catch(() => [])
  if (pooled.length > 0) await witness.terminate(random.pick(pooled)).catch(() => {})
}

async function lightFaults(cluster: Cluster): Promise<void> {
  const { fleet, random } = cluster
  for (let moment = 0; moment < 4; moment++) {
    await sleep(random.below(100))
    const fault = random.fraction()
    if (fault < 0.25) await terminateOne(cluster)
    else if (fault < 0.33) await random.pick(fleet.actors).kill()
  }
}

const silences: Direction[][] = [['to-server', 'to-client'], ['to-server'], ['to-client']]

async function heavyFaults(cluster: Cluster): Promise<void> {
  const { fleet, random } = cluster
  for (let moment = 0; moment < 5; moment++) {
    await sleep(random.below(1_200))
    const actor = random.pick(fleet.actors)
    const fault = random.fraction()
    if (fault < 0.35) actor.freeze()
    else if (fault < 0.5) actor.thaw()
    else if (fault < 0.8) actor.silence(random.pick(silences))
    else if (fault < 0.9) await terminateOne(cluster)
    else await actor.kill()
  }
  // Longer than the expiry, so that actors that are still frozen or silent lose everything.
  if (random.chance(0.7)) await sleep(expiryMs + random.below(800))
}

/** Restarts the server of several clusters once or twice. */
async function restartNow(server: EmbeddedServer, clusters: Cluster[], random: Random): Promise<void> {
  for (let times = 1 + random.below(2); times > 0; times--) {
    await sleep(random.below(2_500))
    await recordEnding(clusters, 'all', () => server.restart(random.pick(['fast', 'immediate'])))
  }
}

/** Runs `count` schedules of light faults, divided among the clusters, which run at the same time. */
export async function runLightFaults(clusters: readonly Cluster[], count: number): Promise<void> {
  const perCluster = Math.ceil(count / clusters.length)
  await Promise.all(
    clusters.map(async (cluster) => {
      for (let schedule = 0; schedule < perCluster; schedule++) {
        await cluster.fleet.fill()
        await run(cluster, schedule, lightHolds, () => lightFaults(cluster))
      }
    }),
  )
  await concludeAll(clusters)
}

/** Runs `count` schedules of heavy faults. Every third round also restarts the server that the clusters share. */
export async function runHeavyFaults(
  clusters: Cluster[],
  count: number,
  server: EmbeddedServer,
  random: Random,
): Promise<void> {
  const rounds = Math.ceil(count / clusters.length)
  for (let round = 0; round < rounds; round++) {
    await Promise.all(clusters.map(({ fleet }) => fleet.fill()))
    // The restart may happen while actors are frozen or disconnected.
    const restarts = round % 3 === 2 ? restartNow(server, clusters, random) : Promise.resolve()
    await Promise.all([
      restarts,
      ...clusters.map((cluster) => run(cluster, round, heavyHolds, () => heavyFaults(cluster))),
    ])
  }
  await concludeAll(clusters)
}
