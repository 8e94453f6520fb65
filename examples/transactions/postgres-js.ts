// postgres.js: what `sql.begin` hands to your function.
import postgres from 'postgres'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const sql = postgres(url, { max: 2 })

  const placeOrder = (customer: string) =>
    sql.begin(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const [order] = await tx`insert into customer_order (customer) values (${customer}) returning id`
      await holdfast.jobs.enqueue(sendInvoice, { order: order!.id }, { tx }) // with the order, or not at all
      await till.guard(tx) // nothing of it, if somebody else may have the till
    })
  return { placeOrder, close: () => sql.end() }
})

// prints:
// while another has the customer: refused (LOCK_TIMEOUT); orders: 0, jobs: 0
// when the customer is free: placed; orders: 1, jobs: 1
// when another has the till: refused (LOCK_LOST); orders: 1, jobs: 1
