// Fastify. The plugin opens, drains and closes the instance, and serves the dashboard and the health checks.
import Fastify from 'fastify'
import { LimitReachedError, LockTimeoutError } from 'holdfast'
import { holdfastPlugin } from 'holdfast/fastify'
import { deliveryOf, webhooks } from 'holdfast/http'
import pg from 'pg'
import { exportOrders, makeReport, markPaid, type Order, operatorOf, placeOrder, sendInvoice } from './shop.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 })

const app = Fastify()
// Fastify runs these hooks in reverse order. It closes the instance, and then the pool.
app.addHook('onClose', () => pool.end())
await app.register(holdfastPlugin, {
  pool,
  namespace: 'shop',
  drainWithin: '20s',
  health: '/health',
  dashboard: { prefix: '/admin/holdfast', auth: operatorOf },
})
const { holdfast } = app

holdfast.jobs.work([sendInvoice], { concurrency: 10 })
holdfast.schedules.add('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' }, ({ tick }) =>
  makeReport(pool, tick.toISOString()),
)

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
const events = webhooks(holdfast.once, { key: (request) => `payments:${(request.body as { id: string }).id}` })
app.register(async (scope) => {
  scope.register(events.fastify())
  scope.post<{ Body: { order: number } }>('/webhooks/payments', async (request) => {
    await markPaid(deliveryOf(request)!.tx, request.body.order)
    return { received: true }
  })
})

app.setErrorHandler((error, _request, reply) => {
  if (error instanceof LockTimeoutError) return reply.code(409).header('retry-after', '1').send({ busy: error.lock })
  if (error instanceof LimitReachedError) return reply.code(429).header('retry-after', '1').send({ busy: error.limit })
  throw error
})

process.once('SIGTERM', () => app.close())

const address = await app.listen({ port: Number(process.env.PORT ?? 3000) })
console.log(`listening on ${new URL(address).port}`)
