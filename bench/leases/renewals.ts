// Measures the cost of renewing 1,000 leases: the transactions that the server counts. Each transaction is one statement.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type Lease } from 'holdfast'
import type { Options } from '../measure.ts'
import { query } from '../server.ts'
import { table } from '../table.ts'

const many = 1_000
const ttlMs = 6_000

export async function renewals(url: string, { progress }: Options) {
  progress(`leases: ${many} held`)
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  try {
    const names = Array.from({ length: many }, (_, at) => `kept:${at}`)
    const leases: Lease[] = []
    // The leases are acquired at different times, so that their renewals are due at different times.
    for (let at = 0; at < many; at += 50) {
      leases.push(
        ...(await Promise.all(names.slice(at, at + 50).map((name) => holdfast.leases.acquire(name, { ttl: ttlMs })))),
      )
    }
    await sleep(ttlMs)
    const [before] = await query(url, committed)
    const from = performance.now()
    await sleep(3 * ttlMs)
    const [after] = await query(url, committed)
    const perSecond = ((after.count - before.count) / (performance.now() - from)) * 1_000
    if (!leases.every((lease) => lease.held)) throw new Error('A lease was lost')
    await Promise.all(leases.map((lease) => lease.release()))
    return { leases: many, ttlMs, perSecond: Number(perSecond.toPrecision(3)), oneByOne: many / (ttlMs / 1_000 / 3) }
  } finally {
    await holdfast.close()
  }
}

const committed = 'select xact_commit::float8 as count from pg_stat_database where datname = current_database()'

export function showRenewals({ leases, ttlMs, perSecond, oneByOne }: Awaited<ReturnType<typeof renewals>>) {
  return table(
    [`${leases} leases of ${ttlMs / 1_000} s, held`, 'statements/s'],
    [
      ['holdfast', perSecond],
      ['a renewal per lease, after a third of its duration', oneByOne],
    ],
  )
}
