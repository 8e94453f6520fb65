// Prisma, with `@prisma/adapter-pg`: what `prisma.$transaction` hands to your function.
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './prisma/client.ts'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 2 }) })

  const placeOrder = (customer: string) =>
    prisma.$transaction(async (tx) => {
      await holdfast.locks.inTransaction(tx, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const order = await tx.customer_order.create({ data: { customer } })
      await holdfast.jobs.enqueue(sendInvoice, { order: order.id }, { tx }) // with the order, or not at all
      await till.guard(tx) // nothing of it, if somebody else may have the till
    })
  return { placeOrder, close: () => prisma.$disconnect() }
})

// prints:
// while another has the customer: refused (LOCK_TIMEOUT); orders: 0, jobs: 0
// when the customer is free: placed; orders: 1, jobs: 1
// when another has the till: refused (LOCK_LOST); orders: 1, jobs: 1
