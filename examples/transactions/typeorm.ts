// TypeORM: the manager that `dataSource.transaction` hands to your function, or a query runner after `startTransaction`.
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
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // with the order, or not at all
      await till.guard(tx) // nothing of it, if somebody else may have the till
    })
  return { placeOrder, close: () => source.destroy() }
})

// prints:
// while another has the customer: refused (LOCK_TIMEOUT); orders: 0, jobs: 0
// when the customer is free: placed; orders: 1, jobs: 1
// when another has the till: refused (LOCK_LOST); orders: 1, jobs: 1
