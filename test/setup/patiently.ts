import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Opens an instance of a short expiry, which is also the time of each attempt: on a loaded machine, and while a server restarts, one
 * attempt is not enough.
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
