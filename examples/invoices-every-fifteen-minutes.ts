// Writes the invoices of new orders every 15 minutes. At each tick, one of five processes finds the new orders and enqueues one job per order, in one
// transaction. All five processes write invoices. The example triggers three ticks with `schedules.run`. Without this call, the schedule ticks at :00,
// :15, :30 and :45.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

interface Order {
  order: number
}

const writeInvoice = defineJob('write-invoice', {
  run: async ({ order }: Order, { tx }) => {
    await tx.query('insert into invoice (order_id, written_by) values ($1, $2)', [order, process.pid])
  },
})

const url = process.argv[2]
if (url) await work(url)
else await withDatabase(manage)

/** Runs one of the fleet's processes. */
async function work(url: string) {
  const holdfast = await Holdfast.open({ url })
  holdfast.schedules.add('invoices', { every: '15m' }, async ({ tx }) => {
    const { rows } = await tx.query<Order>(
      'update "order" set billed_at = now() where billed_at is null returning id as order',
    )
    await holdfast.jobs.enqueueMany(writeInvoice, rows, { tx })
  })
  holdfast.jobs.work([writeInvoice], { concurrency: 2 })
  process.on('disconnect', () => holdfast.close())
  process.send?.('ready')
}

async function manage(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(`
    create table "order" (id integer generated always as identity primary key, billed_at timestamptz);
    create table invoice (order_id integer not null, written_by integer not null)`)
  const fleet = Array.from({ length: 5 }, () => fork(fileURLToPath(import.meta.url), [url]))
  await Promise.all(fleet.map((child) => once(child, 'message')))
  const holdfast = await Holdfast.open({ url })
  const count = async (text: string) => (await client.query(text)).rows[0].count

  for (const orders of [100, 200, 300]) {
    await client.query('insert into "order" select from generate_series(1, 100)')
    await holdfast.schedules.run('invoices')
    while ((await count('select count(distinct order_id)::integer from invoice')) < orders) await pause(20)
    const [run] = await holdfast.schedules.runs('invoices', { limit: 1 })
    console.log(
      `the run is ${run?.kind === 'run' && run.state}: ${orders} orders, ${await count('select count(*) from invoice')} invoices`,
    )
  }
  const writers = await count('select count(distinct written_by)::integer from invoice')
  console.log(`several processes wrote invoices: ${writers > 1}`)

  const exits = fleet.map((child) => once(child, 'exit'))
  for (const child of fleet) child.disconnect()
  await Promise.all(exits)
  await holdfast.close()
  await client.end()
}

function pause(ms: number) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

// prints:
// the run is done: 100 orders, 100 invoices
// the run is done: 200 orders, 200 invoices
// the run is done: 300 orders, 300 invoices
// several processes wrote invoices: true
