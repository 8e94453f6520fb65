import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { until, type Witness } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { expiryMs, openDatabase, openInstance, openServer } from './fixture.js'
import { type Actor, type Given, openHistory, prove, startActor } from './schedules-fixture.js'

// Five processes have schedules of every second, and clocks that are wrong by hours, while they are killed, frozen, cut off and
// parted from their sessions, and the server restarts. Afterwards every tick has run once or has one reason why it did not,
// and nobody ever believed in a run while another did.

const schedules: Given[] = [
  { name: 'skip', every: '1s' },
  { name: 'queue', every: '1s', overlap: 'queue' },
  { name: 'allow', cron: '* * * * * *', overlap: 'allow', missed: { all: 3 } },
  { name: 'replace', every: '1s', overlap: 'replace', missed: 'latest' },
  { name: 'record', every: '1s', crashed: 'record', missed: { all: 2 }, sticky: true },
]

interface Cluster {
  readonly url: string
  readonly witness: Witness
  readonly operator: Holdfast
  readonly anchor: 'required' | 'none'
  readonly faults: readonly (keyof typeof faults)[]
  readonly restart: () => Promise<void>
  /** When somebody was last cut off. */
  cutAt: number
}

const faults = {
  async kill(_: Cluster, actors: Actor[], pick: (below: number) => number) {
    const [actor] = actors.splice(pick(actors.length), 1)
    await actor!.kill()
  },
  async freeze(_: Cluster, actors: Actor[], pick: (below: number) => number) {
    const { child } = actors[pick(actors.length)]!
    child.kill('SIGSTOP')
    // Shorter than the expiry, about as long, and longer.
    await sleep([300, 1_900, 2_600][pick(3)])
    child.kill('SIGCONT')
  },
  async cut(world: Cluster, actors: Actor[], pick: (below: number) => number) {
    world.cutAt = performance.now()
    actors[pick(actors.length)]!.proxy.silence('to-server', 'to-client')
  },
  async deafen(world: Cluster, actors: Actor[], pick: (below: number) => number) {
    world.cutAt = performance.now()
    actors[pick(actors.length)]!.proxy.silence('to-client')
  },
  async terminate({ witness, cutAt }: Cluster) {
    // Whoever is cut off cannot hear that somebody ends its session before its time: no lock of PostgreSQL survives both.
    await sleep(cutAt + expiryMs - performance.now())
    await witness.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name like 'holdfast%' and random() < 0.4`,
    )
  },
  async move(_: Cluster, actors: Actor[], pick: (below: number) => number) {
    actors[pick(actors.length)]!.send({ clockMs: wrongBy(pick) })
  },
  async restart(world: Cluster) {
    await world.restart()
  },
}

/** By a day at most, in hours. */
const wrongBy = (pick: (below: number) => number) => (pick(49) - 24) * 3_600_000

/** So many faults, and then more until so many ticks are settled. */
async function walk(world: Cluster, seed: number, atLeast: { faults: number; ticks: number }): Promise<void> {
  const random = randomFrom(seed)
  const pick = (below: number) => random.below(below)
  const { url, witness, operator, anchor } = world
  await witness.query('create table effect (schedule text not null, tick timestamptz not null, fence bigint not null)')
  const history = openHistory()
  const actors: Actor[] = []
  const start = async () => {
    actors.push(await startActor(url, history, { anchor, clockMs: wrongBy(pick), schedules }))
  }
  await Promise.all(Array.from({ length: 5 }, start))
  const done: Partial<Record<keyof typeof faults, number>> = {}
  for (let count = 0; count < atLeast.faults || (await settled(witness).catch(() => 0)) < atLeast.ticks; count++) {
    const fault = world.faults[pick(world.faults.length)]!
    await faults[fault](world, actors, pick)
    done[fault] = (done[fault] ?? 0) + 1
    while (actors.length < 5) await start()
    await sleep(pick(1_200))
  }
  // No more ticks; what was begun comes to its end.
  for (const { name } of schedules) {
    await until(`${name} has no more ticks`, () =>
      operator.schedules.override(name, { at: new Date('2999-01-01T00:00:00Z') }).then(
        () => true,
        () => false,
      ),
    )
  }
  await until(
    'nothing runs',
    async () => (await witness.query("select from holdfast.tick where state in ('running', 'waiting')")).length === 0,
    60_000,
  )
  await Promise.all(actors.map((actor) => actor.close()))
  const tally = await prove(witness, history)
  console.log(`seed ${seed}, faults ${JSON.stringify(done)}: ${JSON.stringify(tally)}`)
  expect(tally.runs).toBeGreaterThan(atLeast.faults)
}

async function settled(witness: Witness): Promise<number> {
  const [row] = await witness.query<{ ticks: string }>(
    `select (select count(*) from holdfast.tick where not extra)
       + (select coalesce(sum(ticks), 0) from holdfast.gap) as ticks`,
  )
  return Number(row!.ticks)
}

/** HOLDFAST_TICKS: how many ticks, for each of the tests here; otherwise their few faults decide. */
const ticks = Number(process.env.HOLDFAST_TICKS ?? 0)

test.each(waysOf(['required', 'none']))('five instances under faults (anchor %s)', { timeout: 0 }, async (anchor) => {
  const seed = fixedSeedOf(`schedules under faults, anchor ${anchor}`)
  const { url, witness } = await openDatabase()
  const operator = await openInstance(url)
  const faults = ['kill', 'freeze', 'cut', 'deafen', 'terminate', 'move'] as const
  const world: Cluster = { url, witness, operator, anchor, faults, async restart() {}, cutAt: 0 }
  await walk(world, seed, { faults: countOf(5), ticks })
})

test('five instances under restarts of the server, and kills', { timeout: 0 }, async () => {
  const seed = fixedSeedOf('schedules under restarts')
  // Crashes are real here: what was answered must have been flushed.
  const { server, url, witness } = await openServer({ fsync: 'on' })
  const operator = await openInstance(url)
  const restart = async () => {
    await server.restart('immediate')
  }
  const faults = ['restart', 'kill', 'move'] as const
  const world: Cluster = { url, witness, operator, anchor: 'required', faults, restart, cutAt: 0 }
  // Two restarts may be over before the first second is.
  await walk(world, seed, { faults: countOf(2), ticks: Math.max(10, ticks) })
})
