// Runs Holdfast as a contestant. Holdfast keeps the job history. `best` runs up to 1,000 jobs in one call to a batch
// handler.
import { type BatchJob, defineJob, Holdfast } from 'holdfast'
import type { Addresses, Handle, How, Payload, Queue, Settings } from './contestants.ts'

export const settings: Settings<{ batch?: { size: number } }> = { best: { batch: { size: 1_000 } }, defaults: {} }

export async function open({ url }: Addresses, how: How): Promise<Queue> {
  const { batch } = settings[how] ?? {}
  const holdfast = await Holdfast.open({ url })
  const definition = (handle: Handle) => {
    if (!batch) return defineJob('work', { lanes: { max: 1 }, run: (payload: Payload) => handle(payload) })
    const run = async (jobs: readonly BatchJob<Payload>[]) => {
      for (const { input } of jobs) await handle(input)
    }
    return defineJob('work', { batch, run })
  }
  const work = definition(() => {})
  return {
    enqueue: (payload) => holdfast.jobs.enqueue(work, payload),
    enqueueMany: (payloads, { delayMs = 0, lane } = {}) =>
      holdfast.jobs.enqueueMany(work, payloads, { delay: delayMs, lane }),
    async work(handle, concurrency) {
      const worker = holdfast.jobs.work([definition(handle)], concurrency ? { concurrency } : undefined)
      return () => worker.close({ within: 1_000 })
    },
    close: () => holdfast.close(),
  }
}
