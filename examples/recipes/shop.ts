// Code that all recipes share: the shop's operations, and the dashboard's authorization. Your program has its own code
// for this.
import { timingSafeEqual } from 'node:crypto'
import { defineJob, type Holdfast, type JobContext, type Transaction } from 'holdfast'
import type { Visitor } from 'holdfast/dashboard'
import type pg from 'pg'

/**
 * Writes an invoice. The row commits together with the job's completion, so each order has exactly one invoice, even
 * after a crash.
 */
export async function writeInvoice({ order }: { order: number }, { tx }: JobContext) {
  await tx.query('insert into invoice (order_id) values ($1)', [order])
}

export const sendInvoice = defineJob('send-invoice', { run: writeInvoice })

export interface Shop {
  pool: pg.Pool
  holdfast: Holdfast
}

export interface Order {
  customer: string
  total: number
}

/** Writes the order and enqueues its job in one transaction. */
export async function placeOrder({ pool, holdfast }: Shop, { customer, total }: Order) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query('insert into customer_order (customer, total) values ($1, $2) returning id', [
      customer,
      total,
    ])
    const job = await holdfast.jobs.enqueue(sendInvoice, { order: rows[0].id }, { tx: client })
    await client.query('commit')
    return { order: rows[0].id, job: job.id }
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

export async function markPaid(tx: Transaction, order: number) {
  await tx.query('update customer_order set paid = true where id = $1', [order])
}

export async function makeReport(pool: pg.Pool, day: string) {
  const { rows } = await pool.query(
    'select count(*)::int as orders, count(*) filter (where paid)::int as paid from customer_order',
  )
  return { day, ...rows[0] }
}

export async function exportOrders(pool: pg.Pool, user: string) {
  const { rows } = await pool.query('select id, total from customer_order where customer = $1 order by id', [user])
  return rows
}

/**
 * Returns the dashboard's visitor, or null without a valid token. In production, check your program's sessions instead.
 */
export function operatorOf(request: Request): Visitor | null {
  const expected = Buffer.from(`Bearer ${process.env.OPERATOR_TOKEN}`)
  const given = Buffer.from(request.headers.get('authorization') ?? '')
  const isOperator = process.env.OPERATOR_TOKEN && given.length === expected.length && timingSafeEqual(given, expected)
  return isOperator ? { name: 'operator', rights: 'all' } : null
}
