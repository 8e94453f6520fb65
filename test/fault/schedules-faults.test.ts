import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { until, type Witness } from '../setup/facts.js'
import { runsAll, waysOf } from '../setup/variants.js'
import { expiryMs, openDatabase, openInstance, openServer } from './fixture.js'
import { type Actor, type NamedSchedule, openHistory, prove, startActor } from './schedules-fixture.js'

// Five processes have schedules with a tick every second, and clocks that are wrong by hours. They are killed, frozen and disconnected, their
// sessions are ended, and the server restarts. Afterwards, every tick has run once or has one reason why it did not run, and no two runs of a
// schedule overlapped.

const schedules: NamedSchedule[] = [
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
  /** Time of the last `cut` or `loseResponses`. */
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
    // Durations that are shorter than the expiry, about equal to it, and longer.
    await sleep([300, 1_900, 2_600][pick(3)])
    child.kill('SIGCONT')
  },
  async cut(cluster: Cluster, actors: Actor[], pick: (below: number) => number) {
    cluster.cutAt = performance.now()
    actors[pick(actors.length)]!.proxy.silence('to-server', 'to-client')
  },
  async loseResponses(cluster: Cluster, actors: Actor[], pick: (below: number) => number) {
    cluster.cutAt = performance.now()
    actors[pick(actors.length)]!.proxy.silence('to-client')
  },
  async terminate({ witness, cutAt }: Cluster) {
    // Waits until no process is disconnected. A disconnected process would not be notified, and its lock would have two holders.
    await sleep(cutAt + expiryMs - performance.now())
    await witness.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name like 'holdfast%' and random() < 0.4`,
    )
  },
  async move(_: Cluster, actors: Actor[], pick: (below: number) => number) {
    actors[pick(actors.length)]!.send({ clockMs: wrongBy(pick) })
  },
  async restart(cluster: Cluster) {
    await cluster.restart()
  },
}

/** Returns a random error of a clock: a whole number of hours, at most a day. */
const wrongBy = (pick: (below: number) => number) => (pick(49) - 24) * 3_600_000

/** Injects at least `faults` faults, and continues until `ticks` ticks have a run or a gap. */
async function run(cluster: Cluster, seed: number, atLeast: { faults: number; ticks: number }): Promise<void> {
  const random = randomFrom(seed)
  const pick = (below: number) => random.below(below)
  const { url, witness, operator, anchor } = cluster
  await witness.query('create table effect (schedule text not null, tick timestamptz not null, fence bigint not null)')
  const history = openHistory()
  const actors: Actor[] = []
  const start = async () => {
    actors.push(await startActor(url, history, { anchor, clockMs: wrongBy(pick), schedules }))
  }
  await Promise.all(Array.from({ length: 5 }, start))
  const done: Partial<Record<keyof typeof faults, number>> = {}
  for (let count = 0; count < atLeast.faults || (await settled(witness).catch(() => 0)) < atLeast.ticks; count++) {
    const fault = cluster.faults[pick(cluster.faults.length)]!
    await faults[fault](cluster, actors, pick)
    done[fault] = (done[fault] ?? 0) + 1
    while (actors.length < 5) await start()
    await sleep(pick(1_200))
  }
  // Stops the ticks. Then the runs that have started must end.
  for (const { name } of schedules) {
    await until(`${name} has no more ticks`, () =>
      operator.schedules.override(name, { at: new Date('2999-01-01T00:00:00Z') }).then(
        () => true,
        () => false,
      ),
    )
  }
  await until(
    'no run is running or waiting',
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

/** Minimum number of ticks per test, from HOLDFAST_TICKS. */
const ticks = Number(process.env.HOLDFAST_TICKS ?? 0)

test.each(waysOf(['required', 'none']))(
  'each tick runs once or has one reason while five instances are under faults (anchor: %s)',
  { timeout: 0 },
  async (anchor) => {
    const seed = fixedSeedOf(`schedules under faults, anchor ${anchor}`)
    const { url, witness } = await openDatabase()
    const operator = await openInstance(url)
    const faults = ['kill', 'freeze', 'cut', 'loseResponses', 'terminate', 'move'] as const
    const cluster: Cluster = { url, witness, operator, anchor, faults, async restart() {}, cutAt: 0 }
    await run(cluster, seed, { faults: countOf(5), ticks })
  },
)

test.skipIf(!runsAll)(
  'each tick runs once or has one reason while five instances are killed and the server restarts',
  {
    timeout: 0,
  },
  async () => {
    const seed = fixedSeedOf('schedules under restarts')
    // With fsync, so that acknowledged commits survive the crashes.
    const { server, url, witness } = await openServer({ fsync: 'on' })
    const operator = await openInstance(url)
    const restart = async () => {
      await server.restart('immediate')
    }
    const faults = ['restart', 'kill', 'move'] as const
    const cluster: Cluster = { url, witness, operator, anchor: 'required', faults, restart, cutAt: 0 }
    // Two restarts may be over before the first tick.
    await run(cluster, seed, { faults: countOf(2), ticks: Math.max(10, ticks) })
  },
)
