// node --import ./scripts/typescript.js bench/steps.ts [--jobs 1000] [--every 1000] [--part cost|kills|resume]
//
// Measures steps. `cost`: jobs with and without steps on one worker. `kills`: jobs of ten steps, half of them with `tx`, while one of three
// worker processes is killed each second; prints how often each step took effect. `resume`: how soon the jobs of a killed worker continue.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { defineJob, Holdfast, type JobContext } from 'holdfast'
import { benchDatabase, circumstances, query } from './server.ts'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000' },
    every: { type: 'string', default: '1000' },
    part: { type: 'string' },
  },
})
const steps = 10
/** Number of jobs in each round of `cost`. */
const perRound = 300
const stepped = defineJob<number>('stepped', { maxCrashes: 1_000 })
/** Time from a kill to the end of the next step of each job that the killed worker was running. */
const resumed = `
  select json_build_object(
    'jobs', count(*), 'median', percentile_disc(0.5) within group (order by ms),
    'p90', percentile_disc(0.9) within group (order by ms), 'max', max(ms)
  ) as "resumed after ms"
  from (
    select distinct on (e.job, kill.pid) round(extract(epoch from next.at - kill.at) * 1000) as ms
    from public.kill
    join public.effect e on e.pid = kill.pid
    join public.effect next on next.job = e.job and next.at > kill.at and next.pid <> kill.pid
    order by e.job, kill.pid, next.at
  ) as resumed`

const parts: Record<string, (url: string) => Promise<unknown>> = { cost, kills, resume }

for (const [name, run] of Object.entries(parts)) {
  if (values.part !== undefined && values.part !== name) continue
  const database = await benchDatabase()
  try {
    console.log(name, await run(database.url))
    console.log(await circumstances(database.url))
  } finally {
    await database.close()
  }
}

/** Median time per job in ms. */
async function cost(url: string) {
  await query(url, 'create table public.effect (job bigint, step integer)')
  const holdfast = await Holdfast.open({ url, log: false })
  const many = (work: (job: JobContext, step: number) => Promise<unknown>) => async (job: JobContext) => {
    for (let step = 0; step < steps; step++) await work(job, step)
  }
  const insert = 'insert into public.effect values ($1, $2)'
  const contestants: Record<string, (job: JobContext) => Promise<unknown>> = {
    plain: async () => {},
    'with job.tx': (job) => job.tx.query(insert, [job.id, 0]),
    'one step': (job) => job.step('step', () => 1),
    'ten steps': many((job, step) => job.step(`step ${step}`, () => 1)),
    'ten steps with tx': many((job, step) =>
      job.step(`step ${step}`, async ({ tx }) => void (await tx.query(insert, [job.id, step]))),
    ),
  }
  const figures: Record<string, Record<string, number>> = {}
  for (const [name, run] of Object.entries(contestants)) {
    for (const concurrency of [1, 10]) {
      let left = 0
      let onDone = () => {}
      const definition = defineJob(`${name} ${concurrency}`, {
        run: async (_: number, job) => {
          await run(job)
          if (--left === 0) onDone()
        },
      })
      const times: number[] = []
      // The first round only warms up.
      for (let round = 0; round < 4; round++) {
        left = perRound
        const inputs = Array.from({ length: perRound }, (_, n) => n)
        await holdfast.jobs.enqueueMany(definition, inputs)
        const done = new Promise<void>((resolve) => {
          onDone = resolve
        })
        const from = performance.now()
        const worker = holdfast.jobs.work([definition], { concurrency })
        await done
        if (round > 0) times.push((performance.now() - from) / perRound)
        await worker.close()
      }
      figures[name] = {
        ...figures[name],
        [`${concurrency} at a time, ms per job`]: Number(times.sort((a, b) => a - b)[1]!.toFixed(2)),
      }
    }
  }
  await holdfast.close()
  return figures
}

/** Starts worker processes. The second function kills the oldest one and starts another one. */
async function startWorkers(url: string) {
  await query(
    url,
    'create table public.effect (job integer, step integer, pid integer, at timestamptz default clock_timestamp())',
  )
  await query(url, 'create table public.kill (pid integer, at timestamptz default clock_timestamp())')
  const all = new Set<ChildProcess>()
  // A worker that has just started is not killed, because on a busy machine no worker would ever run a job.
  const ready = new Set<ChildProcess>()
  const start = async () => {
    const child = fork(fileURLToPath(new URL('./steps-worker.ts', import.meta.url)), [url])
    all.add(child)
    child.on('exit', () => {
      ready.delete(child)
      all.delete(child)
    })
    await once(child, 'message')
    ready.add(child)
  }
  await Promise.all([start(), start(), start()])
  let killed = 0
  return {
    get killed() {
      return killed
    },
    async killOldest() {
      const [oldest] = ready
      if (!oldest) return
      killed++
      ready.delete(oldest)
      oldest.kill('SIGKILL')
      await Promise.all([query(url, 'insert into public.kill (pid) values ($1)', [oldest.pid]), start()])
    },
    stop() {
      for (const child of all) child.kill('SIGKILL')
    },
  }
}

async function whenEnded(url: string, count: number) {
  const ended = "select count(*)::integer as ended from holdfast.job_history where kind = 'stepped'"
  while ((await query(url, ended))[0].ended < count) await sleep(100)
}

/** Kills a worker every second until all jobs are done. */
async function kills(url: string) {
  const workers = await startWorkers(url)
  const holdfast = await Holdfast.open({ url, log: false })
  const count = Number(values.jobs)
  const inputs = Array.from({ length: count }, (_, n) => n)
  await holdfast.jobs.enqueueMany(stepped, inputs)
  const startedAt = performance.now()
  const killing = setInterval(() => void workers.killOldest(), Number(values.every))
  await whenEnded(url, count)
  clearInterval(killing)
  const seconds = Number(((performance.now() - startedAt) / 1_000).toFixed(1))
  workers.stop()
  const [row] = await query(
    url,
    `with step as (
       select job, step, count(*) as effects, count(distinct pid) as processes from public.effect group by job, step
     )
     select
       (select count(*)::integer from holdfast.job_history where kind = 'stepped' and state = 'done') as done,
       (select count(*)::integer from holdfast.job_step) as recorded,
       (select count(*)::integer from step where step % 2 = 0) as "steps with tx",
       (select sum(effects)::integer from step where step % 2 = 0) as "their effects",
       (select count(*)::integer from step where step % 2 = 1) as "other steps",
       (select sum(effects)::integer from step where step % 2 = 1) as "their calls",
       -- A function may run again only in another process, after its process was killed.
       (select count(*)::integer from step where effects > processes) as "repeated without a kill"`,
  )
  await holdfast.close()
  return { jobs: count, seconds, kills: workers.killed, ...row }
}

/** Kills a worker while all jobs are running, so that no other job delays them. */
async function resume(url: string) {
  const workers = await startWorkers(url)
  const holdfast = await Holdfast.open({ url, log: false })
  const [rounds, perKill] = [15, 15]
  for (let round = 0; round < rounds; round++) {
    const inputs = Array.from({ length: perKill }, (_, n) => round * perKill + n)
    await holdfast.jobs.enqueueMany(stepped, inputs)
    await sleep(60 + 10 * round)
    await workers.killOldest()
    await whenEnded(url, (round + 1) * perKill)
  }
  workers.stop()
  const [row] = await query(url, resumed)
  await holdfast.close()
  return { kills: workers.killed, ...row }
}
