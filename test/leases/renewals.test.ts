// What many leases of one instance cost, as pg_stat_statements counts it.
import { expect, test } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const many = 1_000

async function renewals(url: string): Promise<number> {
  const [row] = await sql<{ calls: number }>(
    url,
    `select coalesce(sum(calls), 0)::integer as calls
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and query like '%greatest(lease.expires_at%'`,
  )
  return row!.calls
}

for (const anchor of ['required', 'none'] as const) {
  test(`${many} leases renew in a few statements, anchor ${anchor}`, async () => {
    const url = await databaseUrl()
    const { leases } = await open({ url, anchor })
    const ttlMs = 5_000
    // At different times, so that they would be due at different times.
    const taken = []
    for (let at = 0; at < many; at += 50) {
      const batch = Array.from({ length: 50 }, (_, i) => leases.acquire(`n${at + i}`, { ttl: ttlMs }))
      taken.push(...(await Promise.all(batch)))
    }
    const from = performance.now()
    const before = await renewals(url)
    await until('two lives are over', () => performance.now() - from > 2 * ttlMs)
    const lives = (performance.now() - from) / ttlMs
    const perLife = ((await renewals(url)) - before) / lives
    console.info(`${many} leases, anchor ${anchor}: ${perLife.toFixed(1)} renewing statements a life`)
    expect(taken.every((lease) => lease.held)).toBe(true)
    expect(perLife).toBeGreaterThan(2)
    // Three to six if they all fall together, and they fall together the more the longer they live.
    expect(perLife).toBeLessThan(10)
    const [row] = await sql<{ count: number }>(
      url,
      'select count(*)::integer from holdfast.lease where expires_at > clock_timestamp()',
    )
    expect(row!.count).toBe(many)
  })
}
