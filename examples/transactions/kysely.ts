// Kysely: `tx` is the transaction that `db.transaction().execute` passes to your function.
import { type Generated, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { story } from './story.ts'

interface Tables {
  customer_order: { id: Generated<number>; customer: string }
}

await story(({ url, holdfast, till, sendInvoice }) => {
  const db = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 2 }) }),
  })

  const placeOrder = (customer: string) =>
    db.transaction().execute(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const order = await tx.insertInto('customer_order').values({ customer }).returning('id').executeTakeFirstOrThrow()
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // commits with the order
      await till.guard(tx) // rejects the transaction if another holder may have the till
    })
  return { placeOrder, close: () => db.destroy() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
