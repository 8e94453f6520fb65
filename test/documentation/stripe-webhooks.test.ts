// Runs the programs of the guide to Stripe's webhooks as printed. The programs receive events that Stripe's own library has signed.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Stripe from 'stripe'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Running } from '../cli/program.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { root } from './lines.js'

const guide = readFileSync(join(root, 'docs/guides/stripe-webhooks.md'), 'utf8')
const [server, route] = [...guide.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code!) as [string, string]

/** The parts that the guide leaves to its reader: the instance, and a server for the route. */
const instance = `import { Holdfast } from 'holdfast'
export const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL, namespace: 'shop' })
`
const honoServer = `import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { holdfast } from './holdfast.js'
import { POST } from './route.js'
const app = new Hono()
${/In Hono: `(app\.post.*)`\./.exec(guide)![1]}
const server = serve({ fetch: app.fetch, port: 0 }, ({ port }) => console.log('listening on ' + port))
process.once('SIGTERM', () => server.close(() => holdfast.close()))
`

const programs: Record<string, Record<string, string>> = {
  Express: { 'server.js': server },
  'a fetch handler': { 'server.js': honoServer, 'route.js': route, 'holdfast.js': instance },
}

const stripe = new Stripe('sk_test_of_nobody')
const secret = 'whsec_of_the_test'

interface Event {
  readonly id: string
  readonly invoice: string
  readonly pending?: number
}

describe.each(Object.entries(programs))('the program for %s', { timeout: 60_000 }, (_, files) => {
  async function start() {
    const database = await databaseUrl()
    await sql(database, 'create table payment (invoice text not null, amount integer not null)')
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-stripe-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    mkdirSync(join(folder, 'node_modules'))
    for (const name of readdirSync(join(root, 'node_modules'))) {
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
    }
    symlinkSync(root, join(folder, 'node_modules/holdfast'))
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    for (const [name, code] of Object.entries(files)) writeFileSync(join(folder, name), code)
    const env = {
      DATABASE_URL: database,
      STRIPE_SECRET_KEY: 'sk_test_of_nobody',
      STRIPE_WEBHOOK_SECRET: secret,
      PORT: '0',
    }
    const program = new Running(process.execPath, [join(folder, 'server.js')], env, folder, 55_000)
    onTestFinished(async () => {
      program.process.kill('SIGTERM')
      await program.ended
    })
    const [, port] = await until('the server listens', () => /listening on (\d+)/.exec(program.stdout))
    const deliver = async ({ id, invoice, pending = 1 }: Event, signedWith = secret) => {
      const payload = JSON.stringify({
        id,
        object: 'event',
        type: 'invoice.paid',
        pending_webhooks: pending,
        data: { object: { id: invoice, amount_paid: 700 } },
      })
      const headers = {
        'content-type': 'application/json; charset=utf-8',
        'stripe-signature': stripe.webhooks.generateTestHeaderString({ payload, secret: signedWith }),
        connection: 'close',
      }
      const url = `http://127.0.0.1:${port}/webhooks/stripe`
      const response = await fetch(url, { method: 'POST', body: payload, headers })
      const isReplayed = response.headers.get('idempotent-replayed') === 'true'
      return { status: response.status, isReplayed, body: await response.text() }
    }
    const payments = async () =>
      (await sql<{ invoice: string }>(database, 'select invoice from payment order by invoice')).map(
        (row) => row.invoice,
      )
    return { deliver, payments }
  }

  test('the program handles two events and replays duplicates, also with another number of pending webhooks', async () => {
    const { deliver, payments } = await start()
    for (const [id, invoice] of [
      ['evt_1', 'in_1'],
      ['evt_2', 'in_2'],
    ] as const) {
      const handled = { status: 200, body: `{"received":"${id}"}` }
      expect(await deliver({ id, invoice, pending: 2 })).toEqual({ ...handled, isReplayed: false })
      expect(await deliver({ id, invoice, pending: 2 })).toEqual({ ...handled, isReplayed: true })
      expect(await deliver({ id, invoice, pending: 1 })).toEqual({ ...handled, isReplayed: true })
    }
    expect(await payments()).toEqual(['in_1', 'in_2'])
  })

  test('the program responds with 400 to an invalid signature, and with 422 to another content with the same key', async () => {
    const { deliver, payments } = await start()
    expect(await deliver({ id: 'evt_3', invoice: 'in_3' }, 'whsec_guessed')).toMatchObject({ status: 400 })
    expect(await deliver({ id: 'evt_3', invoice: 'in_3' })).toMatchObject({ status: 200, isReplayed: false })
    const other = await deliver({ id: 'evt_3', invoice: 'in_4' })
    expect(other.status).toBe(422)
    expect(JSON.parse(other.body)).toMatchObject({ title: 'A different event has the same key' })
    expect(await payments()).toEqual(['in_3'])
  })
})
