// Runs BullMQ on Redis or on its PostgreSQL backend. Best: 100 concurrent jobs in a process, because its page on concurrency recommends a high
// number for jobs that need little CPU time. By default, BullMQ keeps ended jobs.
import { createPostgresBackend, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import type { Addresses, Queue as Bench, How, Payload, Settings } from '../jobs/contestants.ts'

export const settings: Settings<{ concurrency?: number }> = { best: { concurrency: 100 }, defaults: {} }

const name = 'work'

export async function open({ url, redisUrl }: Addresses, how: How): Promise<Bench> {
  const backend = redisUrl ? [] : [createPostgresBackend]
  const connections: Redis[] = []
  const connection = () => {
    if (!redisUrl) return { connectionString: url, migrate: true }
    const one = new Redis(redisUrl, { maxRetriesPerRequest: null })
    connections.push(one)
    return one
  }
  const queue = new Queue(name, { connection: connection() }, ...backend)
  await queue.waitUntilReady()
  return {
    enqueue: (payload) => queue.add('work', payload),
    enqueueMany: (payloads, { delayMs = 0 } = {}) =>
      queue.addBulk(payloads.map((data) => ({ name: 'work', data, opts: delayMs > 0 ? { delay: delayMs } : {} }))),
    async work(handle, concurrency) {
      const options = { ...settings[how], ...(concurrency && { concurrency }), connection: connection() }
      const worker = new Worker<Payload>(name, (job) => handle(job.data), options, ...backend)
      worker.on('error', (error) => console.error(error.message))
      await worker.waitUntilReady()
      return () => worker.close(true)
    },
    async close() {
      await queue.close()
      for (const one of connections) one.disconnect()
    },
  }
}
