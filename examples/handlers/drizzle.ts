// Drizzle in handlers. The handlers of jobs and of `once` write with Drizzle, in a transaction that also records that the handler has ended.
// Each effect happens exactly once, although an attempt fails after its writes and a webhook arrives twice.
import { count } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from '../database.ts'

const shipments = pgTable('shipment', { order: integer().notNull(), label: text().notNull() })
const payments = pgTable('payment', { order: integer().notNull() })

function connect(url: string) {
  const pool = new pg.Pool({ connectionString: url, max: 5 })
  return { pool, db: drizzle(pool) }
}

type Database = ReturnType<typeof connect>['db']

// `tx` in handlers has this type.
declare module 'holdfast' {
  interface Register {
    transaction: Parameters<Parameters<Database['transaction']>[0]>[0]
  }
}

const notify = defineJob('notify', {
  run: async ({ order }: { order: number }) => console.log(`the customer knows that order ${order} is on its way`),
})

const ship = defineJob('ship', {
  retry: { attempts: 3, backoff: '10ms' },
  run: async ({ order }: { order: number }, job) => {
    const tx = await job.tx // opens the transaction
    await tx.insert(shipments).values({ order, label: `label of attempt ${job.attempt}` })
    const notification = await job.enqueue(notify, { order }) // in the same transaction
    if (job.attempt === 1) throw new Error('the printer is out of paper') // rolls back the shipment and the job
    return notification.id
  },
})

await withDatabase(async (url) => {
  const { pool, db } = connect(url)
  await pool.query('create table public.shipment ("order" int not null, label text not null)')
  await pool.query('create table public.payment ("order" int not null)')

  const holdfast = await Holdfast.open({ url, namespace: 'examples', transaction: (work) => db.transaction(work) })
  holdfast.on('job.failed', ({ attempt, error }) =>
    console.log(`attempt ${attempt} failed: ${(error as Error).message}`),
  )

  const shipping = await holdfast.jobs.enqueue(ship, { order: 7 })
  const worker = holdfast.jobs.work([ship, notify])
  await holdfast.jobs.result(await holdfast.jobs.result(shipping)) // until the customer knows
  await worker.close()
  console.log('shipments:', await db.select().from(shipments))

  for (const delivery of ['first', 'second']) {
    const { status } = await holdfast.once.run('payment-of-order-7', async ({ tx }) => {
      await (await tx).insert(payments).values({ order: 7 })
    })
    console.log(`${delivery} delivery of the payment: ${status}`)
  }
  const [{ payments: recorded } = { payments: 0 }] = await db.select({ payments: count() }).from(payments)
  console.log(`payments: ${recorded}`)

  await holdfast.close()
  await pool.end()
})

// prints:
// attempt 1 failed: the printer is out of paper
// the customer knows that order 7 is on its way
// shipments: [ { order: 7, label: 'label of attempt 2' } ]
// first delivery of the payment: done
// second delivery of the payment: replayed
// payments: 1
