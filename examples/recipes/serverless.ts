// Serverless functions. The first invocation opens the instance, and later invocations in the same process use it again. The platform freezes the
// process between invocations and never closes the instance. DATABASE_URL points to a pooler in transaction mode, because there are many processes.
// Session locks are therefore not available.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, LeaseTimeoutError, LimitReachedError } from 'holdfast'
import { deliveryOf, webhooks } from 'holdfast/http'
import pg from 'pg'
import { exportOrders, makeReport, markPaid, type Order, placeOrder, type Shop, sendInvoice } from './shop.ts'

let warm: Promise<Shop> | undefined

/** Opens the instance on the first call. After a failure, the next invocation tries again. */
function shop() {
  warm ??= open().catch((error) => {
    warm = undefined
    throw error
  })
  return warm
}

/** Does not migrate the schema, because a request would wait for the migration. Run `holdfast migrate` during the deployment. */
async function open() {
  // Few connections per process, which are closed soon after use.
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2, idleTimeoutMillis: 5_000 })
  const holdfast = await Holdfast.open({ pool, namespace: 'shop', anchor: 'none', migrate: false })
  return { pool, holdfast }
}

const routes: Record<string, (request: Request, detail: string) => Promise<Response>> = {
  async orders(request: Request) {
    return Response.json(await placeOrder(await shop(), (await request.json()) as Order), { status: 201 })
  },

  // Uses a lease instead of a lock. A killed function's lease becomes free after its ttl.
  async reports(_request: Request, day: string) {
    const { pool, holdfast } = await shop()
    return holdfast.leases.with(`report:${day}`, { ttl: '15s', wait: 0 }, async () =>
      Response.json(await makeReport(pool, day)),
    )
  },

  async exports(request: Request) {
    const { pool, holdfast } = await shop()
    const { user } = (await request.json()) as { user: string }
    return holdfast.limits.with(`export:${user}`, { max: 1 }, async () => Response.json(await exportOrders(pool, user)))
  },

  async webhooks(request: Request) {
    const { holdfast } = await shop()
    const events = webhooks(holdfast.once, { key: async (event) => `payments:${(await event.json()).id}` })
    const handle = events.fetch(async (event) => {
      const { order } = (await event.json()) as { order: number }
      await markPaid(deliveryOf(event)!.tx, order)
      return Response.json({ received: true })
    })
    return handle(request)
  },
}

async function answer(request: Request) {
  // After a freeze, this pause gives the process time to notice closed and outdated connections before it handles the request.
  await sleep(1)
  const [, name = '', detail = ''] = new URL(request.url).pathname.split('/')
  const route = routes[name]
  if (route === undefined || request.method !== 'POST') return new Response('Not found', { status: 404 })
  try {
    return await route(request, detail)
  } catch (error) {
    const headers = { 'retry-after': '1' }
    if (error instanceof LeaseTimeoutError) return Response.json({ busy: error.lease }, { status: 409, headers })
    if (error instanceof LimitReachedError) return Response.json({ busy: error.limit }, { status: 429, headers })
    throw error
  }
}

/** For Vercel, and for other platforms that use Request and Response. */
export default { fetch: answer }

/** The event fields that this example reads, in payload format 2.0. */
interface HttpEvent {
  rawPath: string
  rawQueryString: string
  headers: Record<string, string>
  body?: string
  isBase64Encoded: boolean
  requestContext: { domainName: string; http: { method: string } }
}

/** For AWS Lambda, behind a function URL or an HTTP API. */
export async function handler(event: HttpEvent) {
  const { rawPath, rawQueryString, headers, body, isBase64Encoded, requestContext } = event
  const request = new Request(`https://${requestContext.domainName}${rawPath}?${rawQueryString}`, {
    method: requestContext.http.method,
    headers,
    body: body === undefined ? null : Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8'),
  })
  const response = await answer(request)
  return {
    statusCode: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.text(),
  }
}

/**
 * Called by the platform's cron once a minute. Runs enqueued jobs, and stops gracefully before the platform's time limit. Opens its own instance,
 * because a drained instance cannot be used again.
 */
export async function work({ seconds = 45 } = {}) {
  const { pool, holdfast } = await open()
  holdfast.jobs.work([sendInvoice], { concurrency: 10 })
  await sleep(seconds * 1_000)
  await holdfast.drain({ within: '10s' })
  await holdfast.close()
  await pool.end()
}
