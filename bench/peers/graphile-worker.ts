// Runs graphile-worker. Best: more concurrent jobs and a longer local queue than on its page about performance (24 and 500), because that was
// faster in our measurements. graphile-worker keeps no history.
import { setTimeout as sleep } from 'node:timers/promises'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import type { Addresses, How, Payload, Queue, Settings } from '../jobs/contestants.ts'

interface Tuning {
  concurrentJobs?: number
  maxPoolSize?: number
  localQueue?: { size: number }
  completeJobBatchDelay?: number
  failJobBatchDelay?: number
}

export const settings: Settings<Tuning> = {
  best: {
    concurrentJobs: 100,
    maxPoolSize: 25,
    localQueue: { size: 2_000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  defaults: {},
}

const logger = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message)
})

export async function open({ url }: Addresses, how: How): Promise<Queue> {
  const options = settings[how] ?? {}
  const { concurrentJobs, ...tuning } = options
  const base = { connectionString: url, logger }
  const utils = await makeWorkerUtils({ ...base, maxPoolSize: options.maxPoolSize ?? 10 })
  await utils.migrate()
  return {
    enqueue: (payload) => utils.addJob('work', payload),
    enqueueMany: (payloads, { delayMs = 0, lane } = {}) =>
      utils.addJobs(
        payloads.map((payload) => ({
          identifier: 'work',
          payload,
          ...(lane && { queueName: lane }),
          ...(delayMs > 0 && { runAt: new Date(Date.now() + delayMs) }),
        })),
      ),
    async work(handle, concurrency = concurrentJobs) {
      const runner = await run({
        ...base,
        preset: { worker: { ...base, ...tuning, ...(concurrency && { concurrentJobs: concurrency }) } },
        taskList: { work: async (payload) => void (await handle(payload as Payload)) },
        noHandleSignals: true,
      })
      return async () => {
        // The last batch of completions is not awaited by stop, and would fail after the server has stopped.
        await sleep(200)
        await runner.stop()
      }
    },
    close: async () => utils.release(),
  }
}
