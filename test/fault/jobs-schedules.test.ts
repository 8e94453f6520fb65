import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { until, type Witness } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { openDatabase, openInstance, openServer } from './fixture.js'
import { startWorker, type WorkerProcess } from './jobs-fixture.js'

// Several processes run jobs while they are killed and frozen, their sessions are ended, and the server restarts. Afterwards, every committed job
// has ended once and has had its effect once. No job of a rolled-back transaction has run. No attempt has ended a job after a later attempt had
// started.

interface Cluster {
  readonly url: string
  /** URL without the pooler. */
  readonly directUrl: string
  readonly witness: Witness
  readonly holdfast: Holdfast
  readonly anchor: 'required' | 'none'
  readonly faults: readonly (keyof typeof faults)[]
  readonly restart: () => Promise<void>
}

const write = defineJob('write', {
  maxCrashes: 1_000,
  retry: { attempts: 1_000, backoff: 5, maxBackoff: 100 },
  run: (_: { name: string; ms: number; failures: number; late: boolean }) => {},
})

const logStart = defineJob('log start', { maxCrashes: 1_000, run: (_: { name: string; ms: number }) => {} })

const faults = {
  async kill(_: Cluster, workers: WorkerProcess[], pick: (below: number) => number) {
    const at = pick(workers.length)
    await workers[at]!.kill()
    workers.splice(at, 1)
  },
  async freeze(_: Cluster, workers: WorkerProcess[], pick: (below: number) => number) {
    const { child } = workers[pick(workers.length)]!
    child.kill('SIGSTOP')
    // Durations that are shorter than the expiry, about equal to it, and longer.
    await sleep([300, 1_900, 2_600, 3_200][pick(4)])
    child.kill('SIGCONT')
  },
  async terminate({ witness }: Cluster) {
    await witness
      .query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'holdfast%' and random() < 0.5`,
      )
      .catch(() => {})
  },
  async restart(cluster: Cluster) {
    await cluster.restart()
  },
}

async function run(cluster: Cluster, seed: number, steps: number): Promise<void> {
  const random = randomFrom(seed)
  const pick = (below: number) => random.below(below)
  const { witness, holdfast, anchor, url, directUrl } = cluster
  await witness.query('create table effect (id bigint not null, name text not null)')
  await witness.query('create table started (id bigint not null, fence bigint not null)')
  const workers: WorkerProcess[] = []
  const start = async () => {
    workers.push(await startWorker(url, { queues: ['default'], anchor, concurrency: 1 + pick(20) }))
  }
  await Promise.all([start(), start(), start()])

  const committed: number[] = []
  // Names and no ids, because a server crash may make the id of a rolled-back job available again.
  const rolledBack = new Set<string>()
  let isOver = false
  const enqueueing = (async () => {
    for (let n = 0; !isOver; n++) {
      const inputs = Array.from({ length: 1 + pick(30) }, (_, at) => ({
        name: `${n}/${at}`,
        ms: pick(4) === 0 ? pick(300) : pick(5),
        failures: pick(3) === 0 ? 0.4 : 0,
        late: pick(2) === 0,
      }))
      const options = pick(4) === 0 ? { delay: pick(500) } : { priority: pick(3) - 1 }
      const client = new pg.Client({ connectionString: directUrl })
      client.on('error', () => {})
      let ids: number[] = []
      try {
        await client.connect()
        await client.query('begin')
        const logged = Array.from({ length: pick(4) }, (_, at) => ({
          name: `${n}/log start ${at}`,
          ms: pick(3) === 0 ? 300 + pick(2_500) : pick(50),
        }))
        const refs = [
          ...(await holdfast.jobs.enqueueMany(write, inputs, { ...options, tx: client })),
          ...(await holdfast.jobs.enqueueMany(logStart, logged, { ...options, tx: client })),
        ]
        ids = refs.map(({ id }) => id)
        // Some transactions stay open while other transactions commit and while faults happen.
        if (pick(5) === 0) await sleep(pick(400))
        if (pick(4) === 0) {
          for (const { name } of [...inputs, ...logged]) rolledBack.add(name)
          await client.query('rollback')
        } else {
          await client.query('commit')
          committed.push(...ids)
        }
      } catch {
        // The server has restarted, and the outcome of the commit is unknown. So the jobs are in neither list.
      }
      await client.end().catch(() => {})
      await sleep(pick(30))
    }
  })()

  for (let step = 0; step < steps; step++) {
    await faults[cluster.faults[pick(cluster.faults.length)]!](cluster, workers, pick)
    while (workers.length < 3) await start()
    await sleep(pick(600))
  }
  // A restart may take as long as all other steps.
  await until('enough jobs are committed', () => committed.length > 5 * steps)
  isOver = true
  await enqueueing
  await until(
    'all jobs and claims have ended',
    async () => {
      const [row] = await witness.query<{ left: number }>(
        // If a worker was killed just after its job had ended, its claim is deleted after its expiry.
        `select (select count(*)::int from holdfast.job_live) + (select count(*)::int from holdfast.waiting)
           + (select count(*)::int from holdfast.claim) as left`,
      )
      return row!.left === 0
    },
    60_000,
  ).catch(async (error) => {
    for (const table of ['job_live', 'waiting', 'claim', 'worker', 'instance']) {
      const rows = await witness.query(`select to_json(t) as row from holdfast.${table} as t limit 5`)
      console.log(`left in ${table}: ${JSON.stringify(rows)}`)
    }
    console.log(`locks: ${JSON.stringify((await witness.locks()).slice(0, 20))}`)
    throw error
  })
  for (const worker of workers) await worker.close()

  const history = await witness.query<{ id: string; state: string; count: number }>(
    'select id, min(state) as state, count(*)::int from holdfast.job_history group by id',
  )
  const ends = new Map(history.map(({ id, state, count }) => [Number(id), { state, count }]))
  expect(committed.filter((id) => ends.get(id)?.count !== 1 || ends.get(id)?.state !== 'done')).toEqual([])
  const names = await witness.query<{ name: string }>("select payload->>'name' as name from holdfast.job_history")
  expect(names.filter(({ name }) => rolledBack.has(name))).toEqual([])
  const effects = await witness.query<{ id: string; count: number }>('select id, count(*)::int from effect group by id')
  expect(effects.filter(({ count }) => count !== 1)).toEqual([])
  const written = await witness.query<{ id: string }>("select id from holdfast.job_history where kind = 'write'")
  const numbers = (rows: { id: string }[]) => rows.map(({ id }) => Number(id)).sort((a, b) => a - b)
  expect(numbers(effects)).toEqual(numbers(written))
  const stale = await witness.query(
    `select id, result::text as recorded, max(started.fence)::text as last
     from holdfast.job_history
     join started using (id)
     group by id, result::text
     having max(started.fence)::text <> result::text`,
  )
  expect(stale).toEqual([])
  const left = await witness.query('select session, ids from holdfast.claim')
  expect(left).toEqual([])
  expect(await witness.query('select * from holdfast.job_lost()')).toEqual([])
  expect(await witness.query('select * from holdfast.lane_faults()')).toEqual([])
  console.log(`${committed.length} jobs committed, ${rolledBack.size} rolled back, ${steps} faults`)
}

const lightCount = countOf(4)

test(`jobs end once across ${lightCount} kills, freezes and ended sessions`, { timeout: 0 }, async () => {
  const seed = fixedSeedOf('jobs under faults')
  const { url, witness } = await openDatabase()
  const holdfast = await openInstance(url)
  const faults = ['kill', 'freeze', 'terminate'] as const
  await run(
    { url, directUrl: url, witness, holdfast, anchor: 'required', faults, async restart() {} },
    seed,
    lightCount,
  )
})

const restartCount = countOf(1)

test.skipIf(!runsAll)(
  `jobs end once across ${restartCount} restarts of the server and kills`,
  { timeout: 0 },
  async () => {
    const seed = fixedSeedOf('jobs under restarts')
    // With fsync, so that acknowledged commits survive the crashes.
    const { server, url, witness } = await openServer({ fsync: 'on' })
    const holdfast = await openInstance(url)
    const restart = async () => {
      await server.restart('immediate')
    }
    const faults = ['restart', 'kill'] as const
    await run({ url, directUrl: url, witness, holdfast, anchor: 'required', faults, restart }, seed, restartCount)
  },
)

const pooledCount = countOf(2)

test.skipIf(!runsAll || withoutPgBouncer)(
  `jobs end once without an anchor, through PgBouncer, across ${pooledCount} kills, freezes and ended sessions`,
  { timeout: 0 },
  async () => {
    const seed = fixedSeedOf('jobs behind a pooler')
    const pooler = await startPooler({ mode: 'transaction', backends: 12, roundRobin: true })
    const { url: directUrl, witness } = await openDatabase()
    const url = pooler.through(directUrl)
    const holdfast = await openInstance(url, { anchor: 'none' })
    const faults = ['kill', 'freeze', 'terminate'] as const
    await run({ url, directUrl, witness, holdfast, anchor: 'none', faults, async restart() {} }, seed, pooledCount)
  },
)
