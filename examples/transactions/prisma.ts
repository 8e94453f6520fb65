// Prisma with `@prisma/adapter-pg`: `tx` is the client that `prisma.$transaction` passes to your function.
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './prisma/client.ts'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 2 }) })

  const placeOrder = (customer: string) =>
    prisma.$transaction(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const order = await tx.customer_order.create({ data: { customer } })
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // commits with the order
      await till.guard(tx) // rejects the transaction if another holder may have the till
    })
  return { placeOrder, close: () => prisma.$disconnect() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
