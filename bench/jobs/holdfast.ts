// Holdfast as one of the contestants. It is told nothing; the history is kept.
import { defineJob, Holdfast } from 'holdfast'
import type { Handle, Place, Queue, Settings } from './contestants.ts'

export const settings: Settings<object> = { defaults: {} }

export async function open({ url }: Place): Promise<Queue> {
  const holdfast = await Holdfast.open({ url })
  const named = (run: Handle) => defineJob('work', { lanes: { max: 1 }, run })
  const sent = named(() => {})
  return {
    enqueue: (payload) => holdfast.jobs.enqueue(sent, payload),
    enqueueMany: (payloads, { delayMs = 0, lane } = {}) =>
      holdfast.jobs.enqueueMany(sent, payloads, { delay: delayMs, lane }),
    async work(handle, concurrency) {
      const worker = holdfast.jobs.work(
        [named((payload) => handle(payload))],
        concurrency ? { concurrency } : undefined,
      )
      return () => worker.close({ within: 1_000 })
    },
    close: () => holdfast.close(),
  }
}
