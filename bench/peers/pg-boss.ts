// Runs pg-boss. Best: notifications of new jobs, batches, and no pause after a full batch.
import { PgBoss, type WorkOptions } from 'pg-boss'
import type { Addresses, How, Payload, Queue, Settings } from '../jobs/contestants.ts'

export const settings: Settings<WorkOptions & { notify?: boolean }> = {
  best: { notify: true, batchSize: 500, burstWhenBatchFull: true, localConcurrency: 2, pollingIntervalSeconds: 0.5 },
  defaults: {},
}

const name = 'work'

export async function open({ url }: Addresses, how: How): Promise<Queue> {
  const { notify = false, ...options } = settings[how] ?? {}
  const boss = new PgBoss({ connectionString: url, useListenNotify: notify })
  boss.on('error', (error) => console.error(error.message))
  await boss.start()
  await boss.createQueue(name, { notify })
  return {
    enqueue: (payload) => boss.send(name, payload),
    enqueueMany: (payloads, { delayMs = 0, lane } = {}) =>
      boss.insert(
        name,
        payloads.map((data) => ({
          data,
          ...(lane && { group: { id: lane } }),
          ...(delayMs > 0 && { startAfter: Math.ceil(delayMs / 1_000) }),
        })),
      ),
    async work(handle, concurrency, hasLanes) {
      const sized = concurrency === undefined ? options : { ...options, batchSize: concurrency, localConcurrency: 1 }
      const id = await boss.work<Payload>(name, { ...sized, ...(hasLanes && { groupConcurrency: 1 }) }, (jobs) =>
        Promise.all(jobs.map(({ data }) => handle(data))),
      )
      return () => boss.offWork(name, { id })
    },
    close: () => boss.stop({ graceful: false }),
  }
}
