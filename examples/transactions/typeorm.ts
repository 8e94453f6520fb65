// TypeORM: `tx` is the manager that `dataSource.transaction` passes to your function. A query runner after `startTransaction` also works.
import { DataSource, EntitySchema } from 'typeorm'
import { story } from './story.ts'

const Order = new EntitySchema<{ id: number; customer: string }>({
  name: 'customer_order',
  columns: { id: { type: 'int', primary: true, generated: 'increment' }, customer: { type: 'text' } },
})

await story(async ({ url, holdfast, till, sendInvoice }) => {
  const source = await new DataSource({ type: 'postgres', url, entities: [Order] }).initialize()

  const placeOrder = (customer: string) =>
    source.transaction(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const order = await tx.save(Order, { customer })
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // commits with the order
      await till.guard(tx) // rejects the transaction if another holder may have the till
    })
  return { placeOrder, close: () => source.destroy() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
