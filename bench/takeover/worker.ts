// Runs a worker process with default settings. The process reports the start of each job, and runs the job until a message finishes the job.
import { defineJob, Holdfast } from 'holdfast'

export interface JobStart {
  id: number
  attempt: number
  at: number
}

const [url = '', ...queues] = process.argv.slice(2)
const holdfast = await Holdfast.open({ url, log: false })
const finishing = new Map<number, () => void>()
process.on('message', ({ finish }: { finish: number }) => finishing.get(finish)?.())
const hold = defineJob('hold', {
  run: (_, { id, attempt, signal }) =>
    new Promise<void>((resolve, reject) => {
      finishing.set(id, resolve)
      signal.addEventListener('abort', () => reject(signal.reason))
      process.send?.({ id, attempt, at: Date.now() })
    }),
})
holdfast.jobs.work([hold], { queues })
process.once('disconnect', async () => {
  await holdfast.close()
  process.exit()
})
process.send?.('working')
