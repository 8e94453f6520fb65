// Drizzle: what `db.transaction` hands to your function. The same over postgres.js.
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'
import { story } from './story.ts'

const orders = pgTable('customer_order', {
  id: integer().primaryKey().generatedAlwaysAsIdentity(),
  customer: text().notNull(),
})

await story(({ url, holdfast, till, sendInvoice }) => {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  const db = drizzle(pool)

  const placeOrder = (customer: string) =>
    db.transaction(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const [order] = await tx.insert(orders).values({ customer }).returning()
      await holdfast.jobs.enqueue(sendInvoice, { order: order!.id }, { tx }) // with the order, or not at all
      await till.guard(tx) // nothing of it, if somebody else may have the till
    })
  return { placeOrder, close: () => pool.end() }
})

// prints:
// while another has the customer: refused (LOCK_TIMEOUT); orders: 0, jobs: 0
// when the customer is free: placed; orders: 1, jobs: 1
// when another has the till: refused (LOCK_LOST); orders: 1, jobs: 1
