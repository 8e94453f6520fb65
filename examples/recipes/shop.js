// What all recipes have in common, and would be code of yours: what a shop does, and who may see its dashboard.
import { timingSafeEqual } from 'node:crypto'
import { defineJob } from 'holdfast'

/** Its row commits together with the end of the job: one invoice for each order, whatever dies. */
export const sendInvoice = defineJob('send-invoice', {
  run: async ({ order }, { tx }) => {
    await tx.query('insert into invoice (order_id) values ($1)', [order])
  },
})

/** The order and its job are there together, or neither is. */
export async function placeOrder({ pool, holdfast }, { customer, total }) {
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

export async function markPaid(tx, order) {
  await tx.query('update customer_order set paid = true where id = $1', [order])
}

export async function makeReport(pool, day) {
  const { rows } = await pool.query(
    'select count(*)::int as orders, count(*) filter (where paid)::int as paid from customer_order',
  )
  return { day, ...rows[0] }
}

export async function exportOrders(pool, user) {
  const { rows } = await pool.query('select id, total from customer_order where customer = $1 order by id', [user])
  return rows
}

/**
 * Who comes to the dashboard. In earnest this looks into your sessions; without a token nobody may come.
 *
 * @returns {import('holdfast/dashboard').Visitor | null}
 */
export function operatorOf(request) {
  const expected = Buffer.from(`Bearer ${process.env.OPERATOR_TOKEN}`)
  const given = Buffer.from(request.headers.get('authorization') ?? '')
  const isOperator = process.env.OPERATOR_TOKEN && given.length === expected.length && timingSafeEqual(given, expected)
  return isOperator ? { name: 'operator', rights: 'all' } : null
}
