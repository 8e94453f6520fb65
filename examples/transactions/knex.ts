// Knex: `tx` is the transaction that `knex.transaction` passes to your function.
import knex from 'knex'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const db = knex({ client: 'pg', connection: url, pool: { min: 0, max: 2 } })

  const placeOrder = (customer: string) =>
    db.transaction(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const [order] = await tx('customer_order').insert({ customer }).returning('id')
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // commits with the order
      await till.guard(tx) // rejects the transaction if another holder may have the till
    })
  return { placeOrder, close: () => db.destroy() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
