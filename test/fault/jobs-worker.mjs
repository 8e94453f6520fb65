// A process that works. What it does with a job is in the input of the job.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'

const { url, expiryMs, queues, anchor, concurrency } = JSON.parse(process.argv[2])
const holdfast = await Holdfast.open({ url, expiry: expiryMs, anchor })

const definitions = [
  defineJob('hold', {
    run: async (_, { id, attempt, signal }) => {
      process.send({ started: id, attempt })
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      throw signal.reason
    },
  }),
  defineJob('write', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, longest: 100 },
    run: async ({ name, ms, failures, late }, { id, tx, attempt }) => {
      if (!late) await tx.query('insert into effect values ($1, $2)', [id, name])
      await sleep(ms)
      if (Math.random() < failures) throw new Error(`attempt ${attempt}`)
      if (late) await tx.query('insert into effect values ($1, $2)', [id, name])
      return attempt
    },
  }),
  defineJob('poison', { maxCrashes: 3, run: () => process.kill(process.pid, 'SIGKILL') }),
  defineJob('mild', { run: () => 'mild' }),
]
holdfast.jobs.work(definitions, { queues, concurrency })
process.send({ open: holdfast.id })
process.on('message', async (message) => {
  if (message !== 'close') return
  await holdfast.close()
  process.disconnect()
})
