import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Opens an instance of a short expiry, which is also the time of each attempt: on a loaded machine, and while a server restarts, one
 * attempt is not enough. Plain JavaScript, for the processes of the tests use it too.
 */
export async function patiently(open) {
  const deadline = performance.now() + 20_000
  for (;;) {
    try {
      return await open()
    } catch (error) {
      if (error.code !== 'DATABASE_UNREACHABLE' || performance.now() > deadline) throw error
      await sleep(50)
    }
  }
}
