import { setTimeout as pause } from 'node:timers/promises'
import { type DepartmentContext, transaction } from './department.js'

/** Fetches exchange rates at most once every four seconds: `minHold` keeps the name blocked after the short work. */
export function rates({ holdfast, pool, name, record, repeat }: DepartmentContext): void {
  repeat(1_000, async () => {
    const lease = await holdfast.leases.tryAcquire('exchange-rates', { ttl: '2s', minHold: '4s' })
    if (lease === null) return
    try {
      await record('rates', 'of exchange', async () => {
        await pause(200)
        await transaction(pool, async (client) => {
          await lease.guard(client)
          const values = [1 + Math.random() / 10, lease.fence, name]
          await client.query('insert into exchange_rate (rate, fence, written_by) values ($1, $2, $3)', values)
        })
      })
    } finally {
      await lease.release()
    }
  })
}
