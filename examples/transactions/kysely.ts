// Kysely: what `db.transaction().execute` hands to your function.
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
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // with the order, or not at all
      await till.guard(tx) // nothing of it, if somebody else may have the till
    })
  return { placeOrder, close: () => db.destroy() }
})

// prints:
// while another has the customer: refused (LOCK_TIMEOUT); orders: 0, jobs: 0
// when the customer is free: placed; orders: 1, jobs: 1
// when another has the till: refused (LOCK_LOST); orders: 1, jobs: 1
