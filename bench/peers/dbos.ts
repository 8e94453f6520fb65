// Runs DBOS Transact: workflows on queues. Its documentation recommends no settings for throughput. Best: the settings that were fastest in our
// measurements.
import { DBOS, DBOSClient } from '@dbos-inc/dbos-sdk'
import type { Addresses, Handle, How, Payload, Queue, Settings } from '../jobs/contestants.ts'

interface Tuning {
  systemDatabasePoolSize?: number
  minPollingIntervalMs?: number
}

export const settings: Settings<Tuning> = {
  best: { systemDatabasePoolSize: 20, minPollingIntervalMs: 20 },
  defaults: {},
}

const name = 'work'
let handler: Handle
// DBOS requires that a process registers a workflow once, before the launch.
DBOS.registerWorkflow(async (payload: Payload) => handler(payload), { name })

const logger = { error: console.error, warn() {}, info() {}, debug() {} }

async function launch(url: string, systemDatabasePoolSize: number | undefined, listenQueues: string[]) {
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, systemDatabasePoolSize, listenQueues, logger })
  await DBOS.launch()
}

export async function open({ url }: Addresses, how: How): Promise<Queue> {
  const { systemDatabasePoolSize, ...tuning } = settings[how] ?? {}
  // The first launch creates the tables, as a deployment does.
  await launch(url, systemDatabasePoolSize, [])
  await DBOS.registerQueue(name, { ...tuning, onConflict: 'always_update' })
  await DBOS.shutdown()
  const client = await DBOSClient.create({
    systemDatabaseUrl: url,
    systemDatabasePoolSize,
    applicationName: 'bench',
    logger,
  })
  const enqueue = (payload: Payload, delaySeconds?: number) =>
    client.enqueue({ queueName: name, workflowName: name, ...(delaySeconds && { delaySeconds }) }, payload)
  return {
    enqueue: (payload) => enqueue(payload),
    // DBOS has no bulk enqueue for clients.
    enqueueMany: (payloads, { delayMs = 0 } = {}) =>
      Promise.all(payloads.map((payload) => enqueue(payload, delayMs / 1_000))),
    async work(handle, concurrency) {
      handler = handle
      await launch(url, systemDatabasePoolSize, [name])
      if (concurrency) {
        await DBOS.registerQueue(name, { ...tuning, workerConcurrency: concurrency, onConflict: 'always_update' })
      }
      return () => DBOS.shutdown()
    },
    close: () => client.destroy(),
  }
}
