// postgres.js: `tx` is the transaction that `sql.begin` passes to your function.
import postgres from 'postgres'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const sql = postgres(url, { max: 2 })

  const placeOrder = (customer: string) =>
    sql.begin(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const [order] = await tx`insert into customer_order (customer) values (${customer}) returning id`
      await holdfast.jobs.enqueue(sendInvoice, { order: order!.id }, { tx }) // commits with the order
      await till.guard(tx) // rejects the transaction if another holder may have the till
    })
  return { placeOrder, close: () => sql.end() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
