// Adapts other libraries' locks. `pair` acquires and releases a name's lock.
import advisoryLock from 'advisory-lock'
import { Redis } from 'ioredis'
import Redlock from 'redlock'

export interface PeerLocks {
  pair(name: string): Promise<void>
  close(): void
}

/** advisory-lock opens a connection for each name, and keeps it open while it holds the name. */
export function openAdvisoryLock(url: string): PeerLocks {
  const createMutex = advisoryLock.default(url)
  return {
    async pair(name: string) {
      const unlock = await createMutex(name).tryLock()
      if (!unlock) throw new Error(`Another holder has the lock ${name}`)
      await unlock()
    },
    close() {},
  }
}

/** redlock with one Redis, as most users run it. Its guarantees need several servers, and each server adds the same cost. */
export function openRedlock(redisUrl: string): PeerLocks {
  const redis = new Redis(redisUrl)
  const redlock = new Redlock([redis], { retryCount: 0 })
  return {
    async pair(name: string) {
      const lock = await redlock.acquire([name], 10_000)
      await lock.release()
    },
    close: () => redis.disconnect(),
  }
}
