// The scenario for all transaction examples. An order is placed in one of the library's transactions. In this
// transaction, the example locks the customer's name, enqueues a job, and guards its writes with the lock on the till.
// This process has acquired the lock on the till before the first order.
import { defineJob, Holdfast, type Lock } from 'holdfast'
import pg from 'pg'
import { withDatabase } from '../database.ts'

const sendInvoice = defineJob('send-invoice', { run: (_: { order: number }) => {} })

interface Given {
  url: string
  holdfast: Holdfast
  till: Lock
  sendInvoice: typeof sendInvoice
}

interface Shop {
  placeOrder(customer: string): Promise<void>
  close(): Promise<void>
}

/** Runs the scenario. `open` returns functions that place an order with the library and close the library. */
export async function story(open: (given: Given) => Shop | Promise<Shop>) {
  await withDatabase(async (url) => {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(
      'create table public.customer_order (id int generated always as identity primary key, customer text not null)',
    )
    const holdfast = await Holdfast.open({ url, namespace: 'examples' })
    const other = await Holdfast.open({ url, namespace: 'examples' })
    const till = await holdfast.locks.acquire('till')
    const { placeOrder, close } = await open({ url, holdfast, till, sendInvoice })

    const tell = async (when: string) => {
      const outcome = await placeOrder('ada').then(
        () => 'placed',
        (error) => `rejected (${error.code})`,
      )
      const { rows } = await client.query(
        'select (select count(*) from customer_order) as orders, (select count(*) from holdfast.job_live) as jobs',
      )
      console.log(`${when}: ${outcome}; orders: ${rows[0].orders}, jobs: ${rows[0].jobs}`)
    }

    await other.locks.with('customer:ada', () => tell('while another process has locked the customer'))
    await tell('after the customer is unlocked')

    // An administrator ends the session that holds the lock on the till, and another instance acquires the lock.
    const told = new Promise((resolve) => till.signal.addEventListener('abort', resolve))
    await client.query('select pg_terminate_backend(backend_pid) from holdfast.instance where id = $1', [holdfast.id])
    await told
    await other.locks.with('till', () => tell('while another process holds the till'))

    await close()
    await other.close()
    await holdfast.close()
    await client.end()
  })
}
