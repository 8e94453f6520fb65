// node-postgres: the transaction is the client that ran `begin`.
import pg from 'pg'
import { story } from './story.ts'

await story(({ url, holdfast, till, sendInvoice }) => {
  const pool = new pg.Pool({ connectionString: url, max: 2 })

  async function placeOrder(customer: string) {
    const client = await pool.connect()
    try {
      await client.query('begin')
      await holdfast.locks.inTransaction(client, `customer:${customer}`, { wait: '100ms' }) // until this transaction ends
      const { rows } = await client.query('insert into customer_order (customer) values ($1) returning id', [customer])
      await holdfast.jobs.enqueue(sendInvoice, { order: rows[0].id }, { tx: client }) // commits with the order
      await till.guard(client) // rejects the transaction if another holder may have the till
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  }
  return { placeOrder, close: () => pool.end() }
})

// prints:
// while another process has locked the customer: rejected (LOCK_TIMEOUT); orders: 0, jobs: 0
// after the customer is unlocked: placed; orders: 1, jobs: 1
// while another process holds the till: rejected (LOCK_LOST); orders: 1, jobs: 1
