// Knex: what `knex.transaction` hands to your function.
import knex from 'knex'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const db = knex({ client: 'pg', connection: url, pool: { min: 0, max: 2 } })

  const placeOrder = (customer: string) =>
    db.transaction(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const [order] = await tx('customer_order').insert({ customer }).returning('id')
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // with the order, or not at all
      await till.guard(tx) // nothing of it, if somebody else may have the till
    })
  return { placeOrder, close: () => db.destroy() }
})

// prints:
// while another has the customer: refused (LOCK_TIMEOUT); orders: 0, jobs: 0
// when the customer is free: placed; orders: 1, jobs: 1
// when another has the till: refused (LOCK_LOST); orders: 1, jobs: 1
