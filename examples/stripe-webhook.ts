// Receives Stripe webhooks with real signatures in Express: verifies the raw body first, and then handles each event once. The example signs the
// events itself, as Stripe does, so it needs no Stripe account.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { Holdfast } from 'holdfast'
import { deliveryOf, webhooks } from 'holdfast/http'
import pg from 'pg'
import Stripe from 'stripe'
import { withDatabase } from './database.ts'

const stripe = new Stripe('sk_test_example')
const secret = 'whsec_example'

await withDatabase(async (url) => {
  const pool = new pg.Pool({ connectionString: url })
  await pool.query('create table payment (invoice text not null)')
  const holdfast = await Holdfast.open({ pool, namespace: 'examples' })

  const verify: express.RequestHandler = (request, response, next) => {
    try {
      request.body = stripe.webhooks.constructEvent(request.body, request.headers['stripe-signature']!, secret)
    } catch {
      return void response.status(400).send('The signature is not valid')
    }
    next()
  }
  const events = webhooks(holdfast.once, {
    key: (request) => `stripe:${request.body.id}`,
    // Stripe may change the number of pending webhooks between two deliveries of the same event.
    fingerprint: ({ body: { pending_webhooks, ...event } }) => JSON.stringify(event),
  })
  const app = express()
  app.post('/', express.raw({ type: 'application/json' }), verify, events.express(), async (request, response) => {
    await deliveryOf(request)!.tx.query('insert into payment values ($1)', [request.body.data.object.id])
    response.json({ received: request.body.id })
  })
  const server = createServer(app)
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo

  const deliver = async (what: string, event: object, signedWith = secret) => {
    const body = JSON.stringify({ object: 'event', type: 'invoice.paid', ...event })
    const signature = stripe.webhooks.generateTestHeaderString({ payload: body, secret: signedWith })
    const headers = { 'content-type': 'application/json', 'stripe-signature': signature }
    const response = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body, headers })
    const isReplayed = response.headers.get('idempotent-replayed') === 'true'
    const text = response.status === 422 ? ((await response.json()) as { title: string }).title : await response.text()
    console.log(`${what}: ${response.status} ${text}${isReplayed ? ', replayed' : ''}`)
  }
  holdfast.on('delivery.mismatched', ({ key }) => console.log(`two payloads for the key ${key}`))
  const invoice = (id: string) => ({ object: { id } })
  await deliver('first', { id: 'evt_1', data: invoice('in_1'), pending_webhooks: 2 })
  await deliver('repeated', { id: 'evt_1', data: invoice('in_1'), pending_webhooks: 1 })
  await deliver('another event', { id: 'evt_2', data: invoice('in_2'), pending_webhooks: 2 })
  await deliver('forged', { id: 'evt_3', data: invoice('in_3') }, 'whsec_guessed')
  await deliver('same id, other payload', { id: 'evt_1', data: invoice('in_4') })
  const { rows } = await pool.query('select invoice from payment order by invoice')
  console.log(`payments: ${rows.map((row) => row.invoice).join(' ')}`)

  server.closeAllConnections()
  await new Promise((closed) => server.close(closed))
  await holdfast.close()
  await pool.end()
})

// prints:
// first: 200 {"received":"evt_1"}
// repeated: 200 {"received":"evt_1"}, replayed
// another event: 200 {"received":"evt_2"}
// forged: 400 The signature is not valid
// two payloads for the key stripe:evt_1
// same id, other payload: 422 A different event has the same key
// payments: in_1 in_2
