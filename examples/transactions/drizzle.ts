// Drizzle: `tx` is the transaction that `db.transaction` passes to your function. Drizzle on postgres.js works in the same way.
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
      await holdfast.jobs.enqueue(sendInvoice, { order: order!.id }, { tx }) // commits with the order
      await till.guard(tx) // rejects the transaction if another holder may have the till
    })
  return { placeOrder, close: () => pool.end() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
