// The locks of others, each a function that takes a lock of a name and gives it back.
import advisoryLock from 'advisory-lock'
import { Redis } from 'ioredis'
import Redlock from 'redlock'

export interface PeerLocks {
  pair(name: string): Promise<void>
  close(): void
}

/** advisory-lock opens a connection for each name, and keeps it for as long as the name is held. */
export function openAdvisoryLock(url: string): PeerLocks {
  const createMutex = advisoryLock.default(url)
  return {
    async pair(name: string) {
      const unlock = await createMutex(name).tryLock()
      if (!unlock) throw new Error(`${name} is taken`)
      await unlock()
    },
    close() {},
  }
}

/** redlock on one Redis, as it is mostly used; its promise needs several, each of which would cost the same again. */
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
