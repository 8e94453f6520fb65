// Express: opens the instance before the server listens, and closes it after the response to the last request.
import type { AddressInfo } from 'node:net'
import express, { type NextFunction, type Request, type Response } from 'express'
import { Holdfast, LimitReachedError, LockTimeoutError } from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import { deliveryOf, webhooks } from 'holdfast/http'
import { healthHandler } from 'holdfast/telemetry'
import pg from 'pg'
import { exportOrders, makeReport, markPaid, operatorOf, placeOrder, sendInvoice } from './shop.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 })
const holdfast = await Holdfast.open({ pool, namespace: 'shop' })
const board = dashboard({ pool, auth: operatorOf })
const events = webhooks(holdfast.once, { key: (request: { body: { id: string } }) => `payments:${request.body.id}` })

holdfast.jobs.work([sendInvoice], { concurrency: 10 })
holdfast.schedules.add('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' }, ({ tick }) =>
  makeReport(pool, tick.toISOString()),
)

const app = express()
app.get('/health/:probe', healthHandler(holdfast).node)
app.use('/admin/holdfast', board.node)
app.use(express.json())

app.post('/orders', async (request, response) => {
  response.status(201).json(await placeOrder({ pool, holdfast }, request.body))
})

app.post('/reports/:day', async (request, response) => {
  const { day } = request.params
  response.json(await holdfast.locks.with(`report:${day}`, { wait: 0 }, () => makeReport(pool, day)))
})

app.post('/exports', async (request, response) => {
  const { user } = request.body
  response.json(await holdfast.limits.with(`export:${user}`, { max: 1 }, () => exportOrders(pool, user)))
})

app.post('/webhooks/payments', events.express(), async (request, response) => {
  await markPaid(deliveryOf(request)!.tx, request.body.order)
  response.json({ received: true })
})

// After the routes, because Express calls an error handler only for the routes before it.
app.use((error: unknown, _request: Request, response: Response, next: NextFunction) => {
  if (error instanceof LockTimeoutError) return response.status(409).set('retry-after', '1').json({ busy: error.lock })
  if (error instanceof LimitReachedError)
    return response.status(429).set('retry-after', '1').json({ busy: error.limit })
  next(error)
})

const server = app.listen(process.env.PORT ?? 3000, () =>
  console.log(`listening on ${(server.address() as AddressInfo).port}`),
)

process.once('SIGTERM', async () => {
  const answered = new Promise((closed) => server.close(closed)) // stops accepting requests
  await holdfast.drain({ within: '20s' }) // waits for jobs, ticks, and what requests hold
  await board.close() // closes the open pages, which would keep the server open
  server.closeIdleConnections() // idle keep-alive connections would keep the server open for seconds
  await answered
  await holdfast.close()
  await pool.end()
})
