// Provides the Redis to measure on: HOLDFAST_BENCH_REDIS_URL, or a new server if redis-server is installed.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Redis } from 'ioredis'

/** Returns the reason why Redis cannot be measured, or null if it can. */
export function whyNoRedis() {
  if (process.env.HOLDFAST_BENCH_REDIS_URL || !spawnSync('redis-server', ['--version']).error) return null
  return 'redis-server is not installed, and HOLDFAST_BENCH_REDIS_URL is not set'
}

export interface BenchRedis {
  url: string
  /** Process id of the server, or undefined if HOLDFAST_BENCH_REDIS_URL selects the server. */
  pid?: number | undefined
  settings: Record<string, string | undefined>
  /** Returns the number of commands that the server has processed. */
  commands(): Promise<number>
  close(): void | Promise<void>
}

/**
 * Provides an empty database. `close` removes it. The documentation of Redis and BullMQ recommends `everysec` for
 * `appendfsync`. A crash can then lose the last second's writes. `always` gives the same guarantee as a PostgreSQL
 * commit.
 */
export async function benchRedis({ appendfsync = 'everysec' } = {}): Promise<BenchRedis> {
  // A static import would fail before the peers are installed.
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
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const server = spawn('redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory, ...args], {
    stdio: 'ignore',
  })
  const url = `redis://127.0.0.1:${port}`
  // The client retries until the server accepts connections.
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
