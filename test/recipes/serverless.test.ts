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

describe.skipIf(withoutPgBouncer)('functions, through PgBouncer in transaction mode', () => {
  async function stage() {
    const url = await databaseUrl()
    await sql(url, tables)
    const pooler = await startPooler({ mode: 'transaction' })
    const outside = await open({ url, namespace: 'shop' })
    const env = { DATABASE_URL: pooler.through(url) }
    const running = startProgram(process.execPath, [...typescript, platform, recipe], env, undefined, 60_000)
    const [, port] = await running.says(/^listening on (\d+)$/m)
    const ask = async (path: string, body: object) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: JSON.stringify(body) })
      const answer = await response.text()
      return { status: response.status, headers: response.headers, answer: answer && JSON.parse(answer) }
    }
    /** Everything that a function does here. */
    const useAll = async (event: string) => {
      const { status, answer } = await ask('/orders', { customer: 'ada', total: 7 })
      expect(status).toBe(201)
      expect(await ask('/reports/2026-07-01', {})).toMatchObject({ status: 200, answer: { day: '2026-07-01' } })
      expect(await ask('/exports', { user: 'ada' })).toMatchObject({ status: 200 })
      expect(await ask('/webhooks/payments', { id: event, order: answer.order })).toMatchObject({ status: 200 })
      return answer as { order: number; job: number }
    }
    return { url, pooler, outside, running, ask, useAll }
  }

  test('what is busy is answered, a webhook is handled once, and jobs are worked on when the platform calls', async () => {
    const { url, outside, ask, useAll } = await stage()
    const { order, job } = await useAll('evt_1')
    expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: true }])

    const lease = await outside.leases.acquire('report:2026-07-01')
    const permit = await outside.limits.acquire('export:ada', { max: 1 })
    expect(await ask('/reports/2026-07-01', {})).toMatchObject({ status: 409, answer: { busy: 'report:2026-07-01' } })
    expect(await ask('/exports', { user: 'ada' })).toMatchObject({ status: 429, answer: { busy: 'export:ada' } })
    await lease.release()
    await permit.release()

    await sql(url, 'update customer_order set paid = false')
    const again = await ask('/webhooks/payments', { id: 'evt_1', order })
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: false }])

    expect(await outside.jobs.find(job)).toMatchObject({ state: 'ready' })
    await ask('/work', { seconds: 0.3 })
    expect(await outside.jobs.find(job)).toMatchObject({ state: 'done', failures: [] })
    expect(await sql(url, 'select order_id from invoice')).toEqual([{ order_id: order }])
  })

  test('one that was frozen goes on, although its connections are gone and its presence is over', async () => {
    const { url, pooler, running, useAll } = await stage()
    await useAll('evt_1')
    running.process.kill('SIGSTOP')
    onTestFinished(() => void running.process.kill('SIGCONT'))
    // What comes to pass while it lies there; its clock will say that it was for an hour.
    await pooler.restart()
    await sql(url, "update holdfast.instance set expires_at = now() - interval '1 second' where expires_at is not null")
    running.process.kill('SIGCONT')
    await useAll('evt_2')
    expect(await sql(url, 'select paid from customer_order')).toEqual([{ paid: true }, { paid: true }])
  })
})
