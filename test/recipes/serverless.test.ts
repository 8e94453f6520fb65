import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startProgram } from '../cli/program.js'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { typescript } from '../setup/typescript.js'
import { tables } from './shops.js'

const platform = fileURLToPath(new URL('./platform.ts', import.meta.url))
const recipe = new URL('../../examples/recipes/serverless.ts', import.meta.url).href

describe.skipIf(withoutPgBouncer)('the recipe for functions, through PgBouncer in transaction mode', () => {
  async function startPlatform() {
    const url = await databaseUrl()
    await sql(url, tables)
    const pooler = await startPooler({ mode: 'transaction' })
    const outside = await open({ url, namespace: 'shop' })
    const env = { DATABASE_URL: pooler.through(url) }
    const running = startProgram(process.execPath, [...typescript, platform, recipe], env, undefined, 60_000)
    const [, port] = await running.says(/^listening on (\d+)$/m)
    const request = async (path: string, body: object) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: JSON.stringify(body) })
      const text = await response.text()
      return { status: response.status, headers: response.headers, answer: text && JSON.parse(text) }
    }
    /** Calls every function. */
    const useAll = async (event: string) => {
      const { status, answer } = await request('/orders', { customer: 'ada', total: 7 })
      expect(status).toBe(201)
      expect(await request('/reports/2026-07-01', {})).toMatchObject({ status: 200, answer: { day: '2026-07-01' } })
      expect(await request('/exports', { user: 'ada' })).toMatchObject({ status: 200 })
      expect(await request('/webhooks/payments', { id: event, order: answer.order })).toMatchObject({ status: 200 })
      return answer as { order: number; job: number }
    }
    return { url, pooler, outside, running, request, useAll }
  }

  test('held names get 409 and 429, a webhook is handled once, and jobs run when the platform calls `work`', async () => {
    const { url, outside, request, useAll } = await startPlatform()
    const { order, job } = await useAll('evt_1')
    expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: true }])

    const lease = await outside.leases.acquire('report:2026-07-01')
    const permit = await outside.limits.acquire('export:ada', { max: 1 })
    expect(await request('/reports/2026-07-01', {})).toMatchObject({
      status: 409,
      answer: { busy: 'report:2026-07-01' },
    })
    expect(await request('/exports', { user: 'ada' })).toMatchObject({ status: 429, answer: { busy: 'export:ada' } })
    await lease.release()
    await permit.release()

    await sql(url, 'update customer_order set paid = false')
    const again = await request('/webhooks/payments', { id: 'evt_1', order })
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: false }])

    expect(await outside.jobs.find(job)).toMatchObject({ state: 'ready' })
    await request('/work', { seconds: 0.3 })
    expect(await outside.jobs.find(job)).toMatchObject({ state: 'done', failures: [] })
    expect(await sql(url, 'select order_id from invoice')).toEqual([{ order_id: order }])
  })

  test('a function that was frozen works after it lost its connections and its presence', async () => {
    const { url, pooler, running, useAll } = await startPlatform()
    await useAll('evt_1')
    running.process.kill('SIGSTOP')
    onTestFinished(() => void running.process.kill('SIGCONT'))
    // During the freeze, the connections end and the presence expires. Afterwards the clock shows that an hour has passed.
    await pooler.restart()
    await sql(url, "update holdfast.instance set expires_at = now() - interval '1 second' where expires_at is not null")
    running.process.kill('SIGCONT')
    await useAll('evt_2')
    expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: true }, { paid: true }])
  })
})
