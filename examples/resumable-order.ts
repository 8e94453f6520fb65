// A resumable job charges a card, books the order and waits for an approval. The first worker process is killed after the charge. The second process
// continues with the booking: the card is charged once, and the order is booked once.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const fulfil = defineJob('fulfil', {
  run: async ({ order }: { order: number }, job) => {
    const charge = await job.step('charge', () => {
      process.send?.(`charged the card in attempt ${job.attempt}`)
      return { id: `charge-${order}` }
    })
    if (job.attempt === 1) {
      process.send?.('holds')
      await once(job.signal, 'abort')
    }
    await job.step('book', ({ tx }) => tx.query('insert into booking values ($1, $2)', [order, charge.id]))
    await job.sleep('100ms')
    const approval = await job.event<{ by: string }>('approved', { within: '7d' })
    return `shipped, approved by ${approval?.by}`
  },
})

const [url] = process.argv.slice(2)
if (url) await work(url)
else await withDatabase(shop)

/** Runs one of the worker processes. */
async function work(url: string) {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  holdfast.jobs.work([fulfil])
  process.on('disconnect', () => holdfast.close())
}

async function shop(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table booking (order_id integer not null, charge text not null)')
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const job = await holdfast.jobs.enqueue(fulfil, { order: 42 })

  const start = () => fork(fileURLToPath(import.meta.url), [url])
  const first = start()
  const killed = once(first, 'exit')
  first.on('message', (message) => {
    if (message === 'holds') first.kill('SIGKILL')
    else console.log(message)
  })
  await killed
  console.log('the worker was killed')

  // The event arrives before the job waits for it.
  await holdfast.jobs.send(job.id, 'approved', { by: 'ada' })
  const second = start()
  second.on('message', (message) => console.log(message))
  console.log(await holdfast.jobs.result(job))
  const { steps } = (await holdfast.jobs.find(job.id))!
  for (const { name, kind, attempt } of steps) console.log(`${name}: ${kind} of attempt ${attempt}`)
  const { rows } = await client.query('select * from booking')
  console.log(rows)

  const closed = once(second, 'exit')
  second.disconnect()
  await closed
  await holdfast.close()
  await client.end()
}

// prints:
// charged the card in attempt 1
// the worker was killed
// shipped, approved by ada
// charge: step of attempt 1
// book: step of attempt 2
// sleep: sleep of attempt 2
// approved: event of attempt 2
// [ { order_id: 42, charge: 'charge-42' } ]
