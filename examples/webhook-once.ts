// A payment provider delivers each event several times, to three processes at once. Each payment is booked once. Who comes
// while an event is being handled hears 202; who comes later gets the first response again.
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

/** One process of the application. The handler takes a while: it waits for the word of the one who started it. */
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

/** The provider. */
async function deliver(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table booking (event text not null)')
  const workers = Array.from({ length: 3 }, () => fork(fileURLToPath(import.meta.url), [url]))
  const addresses = await Promise.all(workers.map((worker) => once(worker, 'message').then(([{ address }]) => address)))
  const post = (address: string) => fetch(address, { method: 'POST', headers: { 'x-event-id': 'evt_1' } })

  // One of the three begins to handle it.
  const handling = Promise.race(workers.map((worker) => once(worker, 'message').then(() => worker)))
  const first = addresses.map(post)
  const handler = await handling
  const duplicates = await Promise.all([...addresses, ...addresses].map(post))
  console.log(`while it is handled: ${duplicates.map(({ status }) => status).join(' ')}`)

  handler.send('go on')
  const statuses = (await Promise.all(first)).map(({ status }) => status)
  console.log(`of the first three: ${statuses.filter((status) => status === 201).length} handled it`)

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
// while it is handled: 202 202 202 202 202 202
// of the first three: 1 handled it
// later: 201 {"booked":"evt_1"}, replayed
// later: 201 {"booked":"evt_1"}, replayed
// later: 201 {"booked":"evt_1"}, replayed
// bookings: 1
