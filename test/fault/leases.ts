import { LeaseLostError } from '../../src/index.js'
import type { Lease } from '../../src/leases/index.js'

/** Resolves with the time and the reason when the holder is notified of the loss. */
export function whenNotified(lease: Lease): Promise<{ at: number; reason: LeaseLostError }> {
  return new Promise((resolve, reject) =>
    lease.signal.addEventListener('abort', () => {
      const { reason } = lease.signal
      if (reason instanceof LeaseLostError) resolve({ at: performance.now(), reason })
      else reject(reason)
    }),
  )
}

/** Waits for the lease. Returns it with the time of the grant. */
export async function timed(acquiring: Promise<Lease>): Promise<{ lease: Lease; at: number }> {
  const lease = await acquiring
  return { lease, at: performance.now() }
}
