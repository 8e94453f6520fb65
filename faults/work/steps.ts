import { defineJob, type JobContext } from 'holdfast'
import { type Random, randomFrom } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

/** Steps of a job, in their order. The check knows them too. */
export const txSteps = ['tx 1', 'tx 2', 'tx 3']
export const cursorEnd = 4

/** All instances of the process share the numbers. */
let batches = 0

/**
 * Runs jobs with steps, cursors, sleeps and events. The history contains each call of a step's function outside `tx`,
 * each call of `job.step` that has returned, and the events that were sent.
 */
export function steps({ holdfast, transaction, sleep, write, userError }: Fixture): Workload {
  const random = randomFrom(process.pid)
  const rolledBack = new Error('rolled back', { cause: userError })

  const stepped = defineJob('stepped', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 200 },
    async run(_: { tag: string }, job) {
      await outside(job, 'outside 1')
      await inTx(job, 'tx 1')
      await job.sleep(random.below(600))
      const early = await job.event('early', { within: '1h' })
      await inTx(job, 'tx 2')
      const cursor = await job.cursor('cursor', 0)
      while (cursor.value < cursorEnd) {
        await cursor.advance(async ({ tx }) => {
          await tx.query("insert into public.effect (what, id, by) values ('cursor', $1, $2)", [job.id, cursor.value])
          await work()
          return cursor.value + 1
        })
      }
      await outside(job, 'outside 2')
      const late = await job.event('late', { within: 1_500 })
      if (random.chance(0.1)) throw new Error('by chance')
      await inTx(job, 'tx 3')
      return { early, late }
    },
  })

  /** Some functions take so long that a fault happens in between. */
  const work = () => sleep(random.chance(0.07) ? random.below(3_000) : random.below(10))

  /** Some transactions cannot commit, which PostgreSQL detects only at the commit. */
  async function inTx(job: JobContext, name: string) {
    await job.step(name, async ({ tx }) => {
      await tx.query("insert into public.effect (what, id, by) values ('tx step', $1, $2)", [job.id, name])
      if (random.chance(0.1)) await tx.query('insert into public.at_commit values (1), (1)')
      await work()
    })
  }

  async function outside(job: JobContext, name: string) {
    const { id, fence } = job
    await job.step(name, async () => {
      write('ranStep', { id, name, fence, pid: process.pid })
      await work()
    })
    write('endedStep', { id, name, fence })
  }

  holdfast.jobs.work([stepped], { concurrency: 10 + random.below(10) })

  return {
    async step(random: Random) {
      const tag = `steps ${process.pid}/${++batches}`
      let ids: number[] = []
      const isRolledBack = random.chance(0.2)
      try {
        await transaction(async (tx) => {
          const inputs = Array.from({ length: 1 + random.below(3) }, () => ({ tag }))
          ids = (await holdfast.jobs.enqueueMany(stepped, inputs, { tx })).map(({ id }) => id)
          // Each job receives this event, because no other process can know the job before the commit.
          for (const id of ids) await holdfast.jobs.send(id, 'early', id, { tx })
          if (isRolledBack) throw rolledBack
        })
      } catch (error) {
        if (error !== rolledBack) throw error
      }
      write(isRolledBack ? 'rolledBack' : 'enqueued', isRolledBack ? { tag } : { tag, ids })
      const waiting = await transaction((client) =>
        client.query(
          "select job from holdfast.job_step where event = 'late' and ended_at is null order by random() limit 3",
        ),
      )
      for (const { job } of waiting.rows) {
        const id = Number(job)
        if (await holdfast.jobs.send(id, 'late', { by: process.pid }, { key: 'once' })) write('sentEvent', { id })
      }
      await sleep(random.below(500))
    },
  }
}
