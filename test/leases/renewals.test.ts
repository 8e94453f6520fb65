// Measures with pg_stat_statements how many statements the renewals of many leases need.
import { expect, test } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { waysOf } from '../setup/variants.js'

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

for (const anchor of waysOf(['none', 'required'])) {
  test(`${many} leases of one instance renew in a few statements, with anchor: ${anchor}`, async () => {
    const url = await databaseUrl()
    const { leases } = await open({ url, anchor })
    const ttlMs = 5_000
    // The leases are acquired at different times, so that their renewals are due at different times.
    const acquired = []
    for (let at = 0; at < many; at += 50) {
      const batch = Array.from({ length: 50 }, (_, i) => leases.acquire(`n${at + i}`, { ttl: ttlMs }))
      acquired.push(...(await Promise.all(batch)))
    }
    const from = performance.now()
    const before = await renewals(url)
    await until('two ttls have passed', () => performance.now() - from > 2 * ttlMs)
    const ttls = (performance.now() - from) / ttlMs
    const perTtl = ((await renewals(url)) - before) / ttls
    console.info(`${many} leases, anchor ${anchor}: ${perTtl.toFixed(1)} renewal statements per ttl`)
    expect(acquired.every((lease) => lease.held)).toBe(true)
    expect(perTtl).toBeGreaterThan(2)
    // If all renewals share their statements, there are 3 to 6 statements per ttl. Over time, more renewals share a statement.
    expect(perTtl).toBeLessThan(10)
    const [row] = await sql<{ count: number }>(
      url,
      'select count(*)::integer from holdfast.lease where expires_at > clock_timestamp()',
    )
    expect(row!.count).toBe(many)
  })
}
