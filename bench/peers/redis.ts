// The Redis to measure on: HOLDFAST_BENCH_REDIS_URL, or a server of its own where redis-server is installed.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Redis } from 'ioredis'

/** Why there is nothing to measure on; null when there is. */
export function whyNoRedis() {
  if (process.env.HOLDFAST_BENCH_REDIS_URL || !spawnSync('redis-server', ['--version']).error) return null
  return 'redis-server is not installed, and HOLDFAST_BENCH_REDIS_URL is not set'
}

export interface BenchRedis {
  url: string
  /** Of the server; undefined when it is not ours. */
  pid?: number | undefined
  settings: Record<string, string | undefined>
  /** How many it has been given. */
  commands(): Promise<number>
  close(): void | Promise<void>
}

/**
 * An empty database, and how to take it away again. `appendfsync`: `everysec` is what the documents of Redis and of BullMQ
 * advise; a crash loses a second. `always` is what a commit of PostgreSQL promises.
 */
export async function benchRedis({ appendfsync = 'everysec' } = {}): Promise<BenchRedis> {
  // Not before the peers are installed.
  const { Redis } = await import('ioredis')
  const given = process.env.HOLDFAST_BENCH_REDIS_URL
  if (given) {
    const redis = new Redis(given)
    await redis.flushdb()
    const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1]
    return {
      url: given,
      settings: { version, server: 'HOLDFAST_BENCH_REDIS_URL' },
      commands: () => commandsOf(redis),
      close: () => redis.disconnect(),
    }
  }
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-redis-'))
  const settings = { appendonly: 'yes', appendfsync, save: '', 'maxmemory-policy': 'noeviction' }
  const words = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const server = spawn('redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory, ...words], {
    stdio: 'ignore',
  })
  const url = `redis://127.0.0.1:${port}`
  // It tries again by itself until the server answers.
  const redis = new Redis(url)
  redis.on('error', () => {})
  const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1]
  return {
    url,
    pid: server.pid,
    settings: { version, ...settings },
    commands: () => commandsOf(redis),
    async close() {
      redis.disconnect()
      const ended = new Promise((resolve) => server.once('exit', resolve))
      server.kill('SIGKILL')
      await ended
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** How many commands it has been given. */
async function commandsOf(redis: Redis) {
  return Number(/total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1])
}

function freePort() {
  return new Promise<number>((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
}
