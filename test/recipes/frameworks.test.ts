import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { waysOf } from '../setup/variants.js'
import { load, operator, shops, tables } from './shops.js'

afterEach(() => {
  // The recipe for Next.js stores its instance here.
  Reflect.deleteProperty(globalThis, 'shop')
})

const json = (body: object): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

test.each(waysOf(Object.entries(shops)))(
  'the recipe for %s handles orders, locks, limits, webhooks, the dashboard, health probes and shutdown',
  { timeout: 60_000 },
  async (_, start) => {
    const url = await databaseUrl()
    await sql(url, tables)
    const outside = await open({ url, namespace: 'shop' })
    const shop = await start({ DATABASE_URL: url, OPERATOR_TOKEN: operator, PORT: '0' })

    // The job of an order runs.
    const ordered = await shop.ask('/orders', json({ customer: 'ada', total: 7 }))
    expect(ordered.status).toBe(201)
    const { order, job } = (await ordered.json()) as { order: number; job: number }
    await outside.jobs.result(job, { wait: '10s' })
    expect(await sql(url, 'select order_id from invoice')).toEqual([{ order_id: order }])

    // An order that cannot be written leaves no job, and its connection can be used again.
    expect(
      (await shop.ask('/orders', json({ customer: 'ada', total: 'much' })).catch(() => ({ status: 500 }))).status,
    ).toBe(500)
    expect(await sql(url, 'select from holdfast.job_live')).toEqual([])

    // A held lock and a full limit are refused, and work after the release.
    const report = () => shop.ask('/reports/2026-07-01', json({}))
    const exported = () => shop.ask('/exports', json({ user: 'ada' }))
    const lock = await outside.locks.acquire('report:2026-07-01')
    const permit = await outside.limits.acquire('export:ada', { max: 1 })
    const refused = await report()
    expect([refused.status, refused.headers.get('retry-after'), await refused.json()]).toEqual([
      409,
      '1',
      { busy: 'report:2026-07-01' },
    ])
    const limited = await exported()
    expect([limited.status, limited.headers.get('retry-after'), await limited.json()]).toEqual([
      429,
      '1',
      { busy: 'export:ada' },
    ])
    await lock.release()
    await permit.release()
    const reported = await report()
    expect([reported.status, await reported.json()]).toEqual([200, { day: '2026-07-01', orders: 1, paid: 0 }])
    const list = await exported()
    expect([list.status, await list.json()]).toEqual([200, [{ id: order, total: 7 }]])

    // A webhook is delivered twice.
    const pay = () => shop.ask('/webhooks/payments', json({ id: 'evt_1', order }))
    for (const replayed of [null, 'true']) {
      const response = await pay()
      expect([response.status, response.headers.get('idempotent-replayed')]).toEqual([200, replayed])
      expect(await response.json()).toEqual({ received: true })
      // The second delivery has no effect: the test undoes the write of the first delivery before it.
      expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: replayed === null }])
      await sql(url, 'update customer_order set paid = false')
    }

    // Only the operator can open the dashboard.
    const page = (headers: Record<string, string>) => shop.ask('/admin/holdfast/', { headers })
    expect((await page({ authorization: 'Bearer something else' })).status).toBe(403)
    expect((await page({})).status).toBe(403)
    const shown = await page({ authorization: `Bearer ${operator}` })
    expect(shown.status).toBe(200)
    expect(await shown.text()).toContain('<title>Holdfast</title>')
    const me = await shop.ask('/admin/holdfast/api/me', { headers: { authorization: `Bearer ${operator}` } })
    expect(await me.json()).toMatchObject({ visitor: 'operator', error: null })

    const ready = await shop.ask('/health/ready')
    expect([ready.status, await ready.json()]).toMatchObject([200, { status: 'up' }])
    expect((await shop.ask('/health/live')).status).toBe(200)
    await until('the schedule is in the database', () => outside.schedules.find('nightly-report'))

    // The shop receives SIGTERM while a job and a request wait for tables, and a page of the dashboard is open.
    const session = await sqlSession(url)
    await session.query('begin; lock table invoice')
    const last = (await (await shop.ask('/orders', json({ customer: 'bob', total: 9 }))).json()) as { job: number }
    await until('the job runs', async () => (await outside.jobs.find(last.job))?.state === 'running')
    await session.query('lock table customer_order')
    const pending = report()
    await until('the report waits', async () => {
      const waiting = await sql(url, "select from pg_locks where relation = 'customer_order'::regclass and not granted")
      return waiting.length === 1
    })
    const news = await shop.ask('/admin/holdfast/api/live?view=audit', {
      headers: { authorization: `Bearer ${operator}` },
    })
    expect([news.status, news.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
    let isOver = false
    const stopped = shop.stop().then(() => {
      isOver = true
    })
    await until('the shop drains', async () => {
      const rows = await sql(url, "select from holdfast.instance where state = 'draining'")
      return rows.length === 1
    })
    expect(isOver).toBe(false)
    await session.query('commit')
    await stopped
    expect((await pending).status).toBe(200)
    expect(await outside.jobs.find(last.job)).toMatchObject({ state: 'done', failures: [] })
    expect(await sql(url, 'select count(*)::int from invoice')).toEqual([{ count: 2 }])
    // The shop has closed its instance. Only the instance of the test remains.
    expect(await sql(url, "select id from holdfast.instance where namespace = 'shop'")).toEqual([{ id: outside.id }])
  },
)

test('reloaded modules of the recipe for Next.js share one instance, and a failed opening is repeated', async () => {
  const url = await databaseUrl()
  const [first, reloaded] = [await load('next/lib/shop.ts'), await load('next/lib/shop.ts?reloaded')]
  expect(reloaded.shop).not.toBe(first.shop)
  vi.stubEnv('DATABASE_URL', `${url}_does_not_exist`)
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(first.shop()).rejects.toThrow('_does_not_exist')
  vi.stubEnv('DATABASE_URL', url)
  const [one, other] = await Promise.all([first.shop(), reloaded.shop()])
  expect(other).toBe(one)
  await reloaded.shutDown()
})
