import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Opens an instance, with several attempts. The expiry also limits each attempt. With a short expiry, one attempt is not enough on a loaded machine
 * or while the server restarts.
 */
export async function patiently<T>(open: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + 20_000
  for (;;) {
    try {
      return await open()
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'DATABASE_UNREACHABLE' || performance.now() > deadline) throw error
      await sleep(50)
    }
  }
}
