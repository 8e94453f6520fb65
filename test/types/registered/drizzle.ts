// What compiles and what does not compile in a program that registers its transaction. `npm run types` checks this file. No test runs it.
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { defineJob, defineSchedule, type HandlerTransaction, Holdfast, type OpenTransaction } from 'holdfast'
import { is } from '../is.js'

declare const url: string
const db = drizzle(url)
const orders = pgTable('orders', { id: integer().primaryKey() })

type DrizzleTx = Parameters<Parameters<typeof db.transaction>[0]>[0]

declare module 'holdfast' {
  interface Register {
    transaction: DrizzleTx
  }
}

const transaction: OpenTransaction<DrizzleTx> = (work) => db.transaction(work)
const holdfast = await Holdfast.open({ url, transaction })
await Holdfast.open({ url, transaction: (work) => db.transaction(work) })
is<Promise<DrizzleTx>>()({} as HandlerTransaction)

const ship = defineJob('ship', {
  run: async (id: number, job) => {
    const tx = await job.tx
    is<DrizzleTx>()(tx)
    await tx.insert(orders).values({ id })
    await holdfast.jobs.enqueue(ship, id, { tx })
    // @ts-expect-error: a promise is no transaction
    await holdfast.jobs.enqueue(ship, id, { tx: job.tx })
    // @ts-expect-error: tx is a promise
    await job.tx.insert(orders)
    // @ts-expect-error: the transaction of Drizzle has no query with a text
    await tx.query('select 1')
  },
})
defineSchedule('ship', { every: '1h' }, async ({ tx }) => (await tx).select().from(orders))
await holdfast.once.run('key', async ({ tx }) => (await tx).delete(orders))
await db.transaction((tx) =>
  holdfast.once.inTransaction(tx, 'key', async (delivery) => (await delivery.tx).delete(orders)),
)

// @ts-expect-error: not a function
await Holdfast.open({ url, transaction: db })
// @ts-expect-error: the promise of the library is not returned
await Holdfast.open({ url, transaction: (work) => void db.transaction(work) })
// @ts-expect-error: not a transaction of the registered library
await Holdfast.open({ url, transaction: (work: (tx: { begin(): void }) => Promise<void>) => work({ begin() {} }) })
