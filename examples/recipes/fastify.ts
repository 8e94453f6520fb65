// Fastify: its hooks close everything in order. `preClose` runs before Fastify waits for requests in flight, and `onClose` runs afterwards.
import Fastify from 'fastify'
import { Holdfast, LimitReachedError, LockTimeoutError } from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import { deliveryOf, webhooks } from 'holdfast/http'
import { healthHandler } from 'holdfast/telemetry'
import pg from 'pg'
import { exportOrders, makeReport, markPaid, type Order, operatorOf, placeOrder, sendInvoice } from './shop.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 })
const holdfast = await Holdfast.open({ pool, namespace: 'shop' })
const board = dashboard({ pool, auth: operatorOf })
const events = webhooks(holdfast.once, { key: (request) => `payments:${(request.body as { id: string }).id}` })
const health = healthHandler(holdfast)

holdfast.jobs.work([sendInvoice], { concurrency: 10 })
holdfast.schedules.add('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' }, ({ tick }) =>
  makeReport(pool, tick.toISOString()),
)

const app = Fastify()
app.register(board.fastify, { prefix: '/admin/holdfast' })

app.get('/health/:probe', (request, reply) => {
  reply.hijack()
  return health.node(request.raw, reply.raw)
})

app.post<{ Body: Order }>('/orders', async (request, reply) => {
  reply.code(201)
  return placeOrder({ pool, holdfast }, request.body)
})

app.post<{ Params: { day: string } }>('/reports/:day', ({ params: { day } }) =>
  holdfast.locks.with(`report:${day}`, { wait: 0 }, () => makeReport(pool, day)),
)

app.post<{ Body: { user: string } }>('/exports', ({ body: { user } }) =>
  holdfast.limits.with(`export:${user}`, { max: 1 }, () => exportOrders(pool, user)),
)

// This scope contains only the webhook, because the plugin protects all routes of its scope.
app.register(async (scope) => {
  scope.register(events.fastify())
  scope.post<{ Body: { order: number } }>('/webhooks/payments', async (request) => {
    await markPaid(deliveryOf(request)!.tx, request.body.order)
    return { received: true }
  })
})

app.setErrorHandler((error, _request, reply) => {
  if (error instanceof LockTimeoutError) return reply.code(409).send({ busy: error.lock })
  if (error instanceof LimitReachedError) return reply.code(429).header('retry-after', '1').send({ busy: error.limit })
  throw error
})

app.addHook('preClose', async () => {
  await holdfast.drain({ within: '20s' }) // waits for jobs, ticks, and what requests hold
  await board.close() // closes the open pages, which would keep the server open
})
app.addHook('onClose', async () => {
  await holdfast.close()
  await pool.end()
})
process.once('SIGTERM', () => app.close())

const address = await app.listen({ port: Number(process.env.PORT ?? 3000) })
console.log(`listening on ${new URL(address).port}`)
