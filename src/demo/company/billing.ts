import { setTimeout as pause } from 'node:timers/promises'
import { defineJob } from '../../index.js'
import type { DepartmentContext } from './department.js'

/**
 * Bills new orders every three seconds. One instance marks the orders and enqueues one job per order, in one
 * transaction. All instances run the jobs. Each invoice is committed in the transaction that ends its job, so a crash
 * causes neither a missing nor a duplicate invoice.
 */
export function billing({ holdfast, name, record }: DepartmentContext): void {
  const writeInvoice = defineJob('write-invoice', {
    queue: 'invoices',
    run: ({ order }: { order: number }, { id, attempt, fence, tx, signal }) =>
      record('invoice', order, async () => {
        await pause(200 + Math.random() * 1_500, undefined, { signal })
        const values = [order, id, attempt, fence, name]
        await tx.query(
          'insert into invoice (order_id, job, attempt, fence, written_by) values ($1, $2, $3, $4, $5)',
          values,
        )
      }),
  })

  holdfast.schedules.add('billing', { every: '3s' }, async ({ tx }) => {
    const orders = await tx.query<{ order: number }>(
      'update "order" set billed_at = now() where billed_at is null returning id as order',
    )
    await holdfast.jobs.enqueueMany(writeInvoice, orders.rows, { tx })
  })
  holdfast.jobs.work([writeInvoice], { concurrency: 3 })
}
