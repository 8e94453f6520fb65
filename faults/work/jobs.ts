import { defineBudget, defineJob, type JobRef, type WorkflowJob } from 'holdfast'
import type pg from 'pg'
import { hostile } from '../../test/property/hostile.ts'
import { type Random, randomFrom } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

const lanes = ['one', 'two', 'three']
const groups = ['a', 'b', 'c']
const provider = defineBudget('provider', { max: 4 })
/** The judge knows this rate. */
const rated = defineBudget('rated', { rate: '50/s', burst: 10 })
const manyAttempts = { maxCrashes: 1_000, retry: { attempts: 1_000, backoff: 5, maxBackoff: 200 } }

/** All instances of the process share the numbers. */
let batches = 0

/**
 * Enqueues jobs of all kinds in the user's transactions. Some transactions are rolled back, and the outcome of some
 * commits stays unknown. The history contains the acknowledged commits and the rollbacks.
 */
export function jobs({
  holdfast,
  transaction,
  recordHold,
  handleOf,
  pause,
  write,
  pool,
  userError,
}: Fixture): Workload {
  const random = randomFrom(process.pid)
  const rolledBack = new Error('rolled back', { cause: userError })

  const writeEffect = defineJob('write', {
    ...manyAttempts,
    async run({ ms, failures }: { tag: string; ms: number; failures: number }, job) {
      await job.tx.query("insert into public.effect (what, id, by) values ('job', $1, $2)", [job.id, process.pid])
      await keepFor(ms)
      if (random.chance(failures)) throw new Error('by chance')
    },
  })
  /** Records the start of each attempt with its fence, outside the transaction, and returns the fence. */
  const logStart = defineJob('log start', {
    ...manyAttempts,
    async run({ ms }: { tag: string; ms: number }, { id, fence }) {
      await pool.query('insert into public.started (id, fence) values ($1, $2)', [id, fence])
      await keepFor(ms)
      return fence
    },
  })
  /** Runs one job at a time in each lane. */
  const inLane = defineJob('in lane', {
    ...manyAttempts,
    lanes: { max: 1 },
    run: ({ lane, ms }: { tag: string; lane: string; ms: number }, job) =>
      recordHold(handleOf(job), [`lane ${lane}`], { job: job.id }, () => keepFor(ms)),
  })
  /** Uses a budget with its weight, and the turns of groups. */
  const callProvider = defineJob('call provider', {
    ...manyAttempts,
    run: ({ weight, ms }: { tag: string; weight: number; ms: number }, job) =>
      recordHold(handleOf(job), ['budget provider'], { job: job.id, weight, max: provider.policy.max }, () =>
        keepFor(ms),
      ),
  })
  const atRate = defineJob('at rate', { ...manyAttempts, budgets: [rated], run: (_: { tag: string }) => keepFor(1) })
  /** Step of a workflow. Checks that the steps before it have had their effects. */
  const step = defineJob('step', {
    ...manyAttempts,
    async run({ flow, name, after }: { tag: string; flow: string; name: string; after: string[] }, job) {
      const { rows: done } = await job.tx.query("select by from public.effect where what = 'step' and id = $1", [flow])
      const missing = after.filter((one) => !done.some(({ by }) => by === one))
      if (missing.length > 0)
        write('wrong', { text: `step ${name} of workflow ${flow} started before ${missing.join(', ')} had an effect` })
      await job.tx.query("insert into public.effect (what, id, by) values ('step', $1, $2)", [flow, name])
      await keepFor(random.below(10))
    },
  })
  /** Throws or rejects with a hostile value in the first two attempts. The third attempt succeeds. */
  const odd = defineJob('odd', {
    ...manyAttempts,
    run(_: { tag: string }, { attempt }) {
      if (attempt > 2) return undefined
      const { make } = hostile(random)
      if (random.chance(0.5)) throw make()
      return keepFor(random.below(5)).then(() => Promise.reject(make()))
    },
  })
  const keepFor = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  const definitions = [writeEffect, logStart, inLane, callProvider, atRate, step, odd]
  holdfast.jobs.work(definitions, { concurrency: 5 + random.below(15) })

  async function enqueue(random: Random, tx: pg.PoolClient, tag: string) {
    const options = () =>
      random.chance(0.3) ? { delay: random.below(500), tx } : { priority: random.below(3) - 1, tx }
    const longer = () => (random.chance(0.1) ? random.below(3_000) : random.below(10))
    const inputs = (count: number) =>
      Array.from({ length: count }, () => ({ tag, ms: longer(), failures: random.chance(0.3) ? 0.4 : 0 }))
    const refs: JobRef[] = await holdfast.jobs.enqueueMany(writeEffect, inputs(1 + random.below(20)), options())
    refs.push(...(await holdfast.jobs.enqueueMany(logStart, inputs(random.below(3)), options())))
    if (random.chance(0.3)) refs.push(await holdfast.jobs.enqueue(odd, { tag }, options()))
    if (random.chance(0.15)) {
      const lane = random.pick(lanes)
      const some = Array.from({ length: 2 }, () => ({ tag, lane, ms: 30 + random.below(100) }))
      refs.push(...(await holdfast.jobs.enqueueMany(inLane, some, { tx, lane })))
    }
    if (random.chance(0.2)) {
      const weight = 1 + random.below(2)
      const some = Array.from({ length: 2 }, () => ({ tag, weight, ms: 10 + random.below(50) }))
      const needs = random.chance(0.3) ? [rated] : []
      const budgets = [{ budget: provider, weight }, ...needs]
      refs.push(...(await holdfast.jobs.enqueueMany(callProvider, some, { tx, budgets, group: random.pick(groups) })))
    }
    if (random.chance(0.2)) {
      const some = new Array(1 + random.below(10)).fill({ tag })
      const options = random.chance(0.5) ? { tx, group: random.pick(groups) } : { tx }
      refs.push(...(await holdfast.jobs.enqueueMany(atRate, some, options)))
    }
    const ids: number[] = []
    if (random.chance(0.2)) {
      const { id } = await holdfast.jobs.enqueueWorkflow({ tx }, (workflow) => {
        const add = (name: string, after: string[], dependencies: WorkflowJob[]) =>
          workflow.add(step, { tag, flow: tag, name, after }, { after: dependencies })
        const a = add('a', [], [])
        const [b, c] = [add('b', ['a'], [a]), add('c', ['a'], [a])]
        add('d', ['b', 'c'], [b, c])
      })
      ids.push(id)
    }
    if (random.chance(0.2)) {
      const unique = `key ${random.below(3)}`
      refs.push(await holdfast.jobs.enqueue(writeEffect, { tag: '', ms: longer(), failures: 0 }, { tx, unique }))
    }
    return [...refs.map(({ id }) => id), ...ids]
  }

  /** Enqueues jobs with budgets without a transaction, so that their room can be reserved. */
  async function enqueueDirectly(random: Random, tag: string) {
    const weight = 1 + random.below(2)
    // A rate that is not kept shows only in a row of many jobs.
    const count = random.chance(0.01) ? 120 : 1 + random.below(5)
    const some = Array.from({ length: 1 + random.below(3) }, () => ({ tag, weight, ms: 10 + random.below(50) }))
    const refs: JobRef[] = await holdfast.jobs.enqueueMany(callProvider, some, {
      budgets: [{ budget: provider, weight }],
    })
    refs.push(...(await holdfast.jobs.enqueueMany(atRate, new Array(count).fill({ tag }))))
    write('enqueued', { tag, ids: refs.map(({ id }) => id) })
  }

  return {
    async step(random) {
      const tag = `${process.pid}/${++batches}`
      let ids: number[] | undefined
      let isRolledBack = false
      try {
        await transaction(async (tx) => {
          ids = await enqueue(random, tx, tag)
          // Some transactions stay open while other transactions commit and while faults happen.
          if (random.chance(0.2)) await pause(random)
          isRolledBack = random.chance(0.2)
          if (isRolledBack) throw rolledBack
        })
      } catch (error) {
        if (error !== rolledBack) throw error
      }
      if (isRolledBack) write('rolledBack', { tag })
      else write('enqueued', { tag, ids })
      if (random.chance(0.4)) await enqueueDirectly(random, `${tag} without a transaction`)
      await keepFor(random.below(200))
    },
  }
}
