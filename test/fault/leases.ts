import { LeaseLostError } from '../../src/index.js'
import type { Lease } from '../../src/leases/index.js'

/** When, and with what, the holder of a lease is told that it is lost. */
export function whenTold(lease: Lease): Promise<{ at: number; reason: LeaseLostError }> {
  return new Promise((resolve, reject) =>
    lease.signal.addEventListener('abort', () => {
      const { reason } = lease.signal
      if (reason instanceof LeaseLostError) resolve({ at: performance.now(), reason })
      else reject(reason)
    }),
  )
}

/** The lease, and when it came. */
export async function timed(asked: Promise<Lease>): Promise<{ lease: Lease; at: number }> {
  const lease = await asked
  return { lease, at: performance.now() }
}
