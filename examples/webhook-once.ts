// A payment provider delivers an event several times, to three processes at the same time. The payment is booked once. Duplicates that arrive while the
// event is being handled receive status 202. Later duplicates receive the first response again.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import { deliveryOf, webhooks } from 'holdfast/http'
import pg from 'pg'
import { withDatabase } from './database.ts'

const [url] = process.argv.slice(2)
if (url) await receive(url)
else await withDatabase(deliver)

/** Runs one of the application's processes. The handler waits for a message from the parent process. */
async function receive(url: string) {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const events = webhooks(holdfast.once, { key: (request) => `psp:${request.headers['x-event-id']}` })
  const protect = events.express()
  const server = createServer((request, response) =>
    protect(request, response, async () => {
      const { tx } = deliveryOf(request)!
      await tx.query('insert into booking (event) values ($1)', [request.headers['x-event-id']])
      process.send?.({ handling: true })
      await once(process, 'message')
      response.writeHead(201, { 'content-type': 'application/json' })
      response.end(`{"booked":"${request.headers['x-event-id']}"}`)
    }),
  )
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  process.on('disconnect', () => server.close(() => holdfast.close()))
  process.send?.({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

/** Acts as the payment provider. */
async function deliver(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table booking (event text not null)')
  const workers = Array.from({ length: 3 }, () => fork(fileURLToPath(import.meta.url), [url]))
  const addresses = await Promise.all(workers.map((worker) => once(worker, 'message').then(([{ address }]) => address)))
  const post = (address: string) => fetch(address, { method: 'POST', headers: { 'x-event-id': 'evt_1' } })

  // One of the three processes starts to handle the event.
  const handling = Promise.race(workers.map((worker) => once(worker, 'message').then(() => worker)))
  const first = addresses.map(post)
  const handler = await handling
  const duplicates = await Promise.all([...addresses, ...addresses].map(post))
  console.log(`while the event is being handled: ${duplicates.map(({ status }) => status).join(' ')}`)

  handler.send('go on')
  const statuses = (await Promise.all(first)).map(({ status }) => status)
  console.log(`requests that handled the event: ${statuses.filter((status) => status === 201).length}`)

  for (const address of addresses) {
    const response = await post(address)
    const isReplayed = response.headers.get('idempotent-replayed') === 'true'
    console.log(`later: ${response.status} ${await response.text()}${isReplayed ? ', replayed' : ''}`)
  }
  const { rows } = await client.query('select count(*) from booking')
  console.log(`bookings: ${rows[0].count}`)

  const exits = workers.map((worker) => once(worker, 'exit'))
  for (const worker of workers) worker.disconnect()
  await Promise.all(exits)
  await client.end()
}

// prints:
// while the event is being handled: 202 202 202 202 202 202
// requests that handled the event: 1
// later: 201 {"booked":"evt_1"}, replayed
// later: 201 {"booked":"evt_1"}, replayed
// later: 201 {"booked":"evt_1"}, replayed
// bookings: 1
