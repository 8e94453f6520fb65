// Three worker processes share a queue. One process is killed while it runs jobs. The other processes run these jobs, and each job has exactly one
// effect. The jobs are enqueued in the same transaction that writes the orders.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const invoice = defineJob('invoice', {
  run: async ({ order }: { order: number }, { tx, attempt, signal }) => {
    // Commits together with the job's completion.
    await tx.query('insert into invoice (order_id) values ($1)', [order])
    // This job's first attempt does not end.
    if (order === 42 && attempt === 1) {
      process.send?.({ holds: order })
      await once(signal, 'abort')
    }
    return { attempt }
  },
})

const [url] = process.argv.slice(2)
if (url) await work(url)
else await withDatabase(shop)

/** Runs one of the fleet's processes. */
async function work(url: string) {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  holdfast.jobs.work([invoice], { concurrency: 5 })
  process.on('disconnect', () => holdfast.close())
}

async function shop(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table "order" (id integer primary key); create table invoice (order_id integer not null)')
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const orders = Array.from({ length: 200 }, (_, n) => ({ order: n }))

  await client.query('begin')
  await client.query('insert into "order" select generate_series(0, 199)')
  await holdfast.jobs.enqueueMany(invoice, orders, { tx: client })
  await client.query('rollback')
  console.log(`rolled back: ${await count(client, 'holdfast.job_live')} jobs`)

  await client.query('begin')
  await client.query('insert into "order" select generate_series(0, 199)')
  const jobs = await holdfast.jobs.enqueueMany(invoice, orders, { tx: client })
  await client.query('commit')
  console.log(`committed: ${await count(client, 'holdfast.job_live')} jobs`)

  const workers = Array.from({ length: 3 }, () => fork(fileURLToPath(import.meta.url), [url]))
  const holder = await Promise.race(workers.map((worker) => once(worker, 'message').then(() => worker)))
  holder.kill('SIGKILL')
  console.log('a worker was killed while it was running jobs')

  const results = await Promise.all(jobs.map((job) => holdfast.jobs.result(job)))
  console.log(`order 42 got its invoice in attempt ${results[42]?.attempt}`)
  const { rows } = await client.query('select count(*), count(distinct order_id) as orders from invoice')
  console.log(`invoices: ${rows[0].count}, for ${rows[0].orders} orders`)

  const others = workers.filter((worker) => worker !== holder)
  const exits = others.map((worker) => once(worker, 'exit'))
  for (const worker of others) worker.disconnect()
  await Promise.all(exits)
  await holdfast.close()
  await client.end()
}

async function count(client: pg.Client, table: string) {
  const { rows } = await client.query(`select count(*) from ${table}`)
  return rows[0].count
}

// prints:
// rolled back: 0 jobs
// committed: 200 jobs
// a worker was killed while it was running jobs
// order 42 got its invoice in attempt 2
// invoices: 200, for 200 orders
