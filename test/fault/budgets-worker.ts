// A process that enqueues jobs with weights into one budget, and runs such jobs. Each run records its start and its end, by the clock of the database.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Budget, defineBudget, defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  max: number
  perSecond: number
}

const { url, expiryMs, max, perSecond }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, log: false }))
const log = new pg.Pool({ connectionString: url, max: 2 })
const budget: Budget = defineBudget('provider', { max, rate: `${perSecond}/s`, burst: max })

const spend = defineJob('spend', {
  maxCrashes: 1_000,
  run: async ({ weight, ms }: { weight: number; ms: number }, { id }) => {
    await log.query('insert into run (id, weight) values ($1, $2)', [id, weight])
    await sleep(ms)
    await log.query('update run set ended_at = clock_timestamp() where id = $1', [id])
  },
})

holdfast.jobs.work([spend], { concurrency: 10 })
process.send?.('open')
let isStopped = false
process.on('message', async (message) => {
  isStopped = true
  if (message !== 'close') return
  await holdfast.close()
  await log.end()
  process.disconnect()
})
while (!isStopped) {
  const weight = 1 + Math.floor(5 * Math.random())
  const input = { weight, ms: 50 + 200 * Math.random() }
  const { id } = await holdfast.jobs.enqueue(spend, input, { budgets: [{ budget, weight }] })
  await log.query('insert into enqueued values ($1)', [id])
  await sleep(500 * Math.random())
}
