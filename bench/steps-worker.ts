// A worker process of bench/steps.ts. Each step takes 20 ms.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'

const url = process.argv[2]!
const pool = new pg.Pool({ connectionString: url, max: 5 })
const insert = 'insert into public.effect values ($1, $2, $3)'
const stepped = defineJob('stepped', {
  maxCrashes: 1_000,
  run: async (n: number, job) => {
    for (let step = 1; step <= 10; step++) {
      await job.step(`step ${step}`, async ({ tx }) => {
        await sleep(20)
        // Only the even steps use `tx`.
        await (step % 2 === 0 ? tx : pool).query(insert, [n, step, process.pid])
      })
    }
  },
})
const holdfast = await Holdfast.open({ url, log: false })
holdfast.jobs.work([stepped], { concurrency: 10 })
process.send!('ready')
