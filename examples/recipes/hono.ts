// Hono on Node.js: its handlers use the web-standard Request and Response, and its server is a `node:http` server.
import { serve } from '@hono/node-server'
import { Holdfast, LimitReachedError, LockTimeoutError } from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import { deliveryOf, webhooks } from 'holdfast/http'
import { healthHandler } from 'holdfast/telemetry'
import { Hono } from 'hono'
import pg from 'pg'
import { exportOrders, makeReport, markPaid, operatorOf, placeOrder, sendInvoice } from './shop.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 })
const holdfast = await Holdfast.open({ pool, namespace: 'shop' })
const board = dashboard({ pool, auth: operatorOf })
const events = webhooks(holdfast.once, { key: async (c) => `payments:${(await c.req.json()).id}` })
const health = healthHandler(holdfast)

holdfast.jobs.work([sendInvoice], { concurrency: 10 })
holdfast.schedules.add('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' }, ({ tick }) =>
  makeReport(pool, tick.toISOString()),
)

const app = new Hono()
app.get('/health/:probe', (c) => health(c.req.raw))
app.all('/admin/holdfast/*', (c) => board.fetch(c.req.raw))

app.post('/orders', async (c) => c.json(await placeOrder({ pool, holdfast }, await c.req.json()), 201))

app.post('/reports/:day', async (c) => {
  const day = c.req.param('day')
  return c.json(await holdfast.locks.with(`report:${day}`, { wait: 0 }, () => makeReport(pool, day)))
})

app.post('/exports', async (c) => {
  const { user } = await c.req.json()
  return c.json(await holdfast.limits.with(`export:${user}`, { max: 1 }, () => exportOrders(pool, user)))
})

app.post('/webhooks/payments', events.hono(), async (c) => {
  const { order } = await c.req.json()
  await markPaid(deliveryOf(c)!.tx, order)
  return c.json({ received: true })
})

app.onError((error, c) => {
  if (error instanceof LockTimeoutError) return c.json({ busy: error.lock }, 409, { 'retry-after': '1' })
  if (error instanceof LimitReachedError) return c.json({ busy: error.limit }, 429, { 'retry-after': '1' })
  throw error
})

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) }, ({ port }) =>
  console.log(`listening on ${port}`),
)

process.once('SIGTERM', async () => {
  const answered = new Promise((closed) => server.close(closed)) // stops accepting requests
  await holdfast.drain({ within: '20s' }) // waits for jobs, ticks, and what requests hold
  await board.close() // closes the open pages, which would keep the server open
  if ('closeIdleConnections' in server) server.closeIdleConnections() // idle keep-alive connections would keep the server open for seconds
  await answered
  await holdfast.close()
  await pool.end()
})
