// graphile-worker. Best: the settings of its page on performance. It keeps no history.
import { makeWorkerUtils, run } from 'graphile-worker'

export const settings = {
  best: {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  defaults: {},
}

const logger = { scope: () => logger, error: console.error, warn() {}, info() {}, debug() {} }

export async function open({ url }, how) {
  const options = settings[how]
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
          queueName: lane,
          ...(delayMs > 0 && { runAt: new Date(Date.now() + delayMs) }),
        })),
      ),
    async work(handle, concurrency = concurrentJobs) {
      const runner = await run({
        ...base,
        preset: { worker: { ...base, ...tuning, ...(concurrency && { concurrentJobs: concurrency }) } },
        taskList: { work: (payload) => handle(payload) },
        noHandleSignals: true,
      })
      return () => runner.stop()
    },
    close: () => utils.release(),
  }
}
