// A process that runs jobs. The input of each job determines what the handler does.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  queues?: string[]
  anchor?: 'required' | 'none'
  concurrency?: number
}

/** Input of a job that writes. */
interface WriteInput {
  name: string
  ms: number
  failures: number
  late?: boolean
}

const { url, expiryMs, queues, anchor, concurrency }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const log = new pg.Pool({ connectionString: url, max: 2 })
log.on('error', () => {})

const definitions = [
  defineJob('hold', {
    run: async (_, { id, attempt, signal }) => {
      process.send?.({ started: id, attempt })
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      throw signal.reason
    },
  }),
  defineJob('write', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 100 },
    run: async ({ name, ms, failures, late }: WriteInput, { id, tx, attempt }) => {
      if (!late) await tx.query('insert into effect values ($1, $2)', [id, name])
      await sleep(ms)
      if (Math.random() < failures) throw new Error(`attempt ${attempt}`)
      if (late) await tx.query('insert into effect values ($1, $2)', [id, name])
      return attempt
    },
  }),
  // Records the start of each attempt outside the transaction, and returns the fence even if the job was taken over.
  defineJob('log start', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 100 },
    run: async ({ ms }: { ms: number }, { id, fence }) => {
      await log.query('insert into started values ($1, $2)', [id, fence])
      await sleep(ms)
      return fence
    },
  }),
  defineJob('block', {
    run: (ms: number, { attempt }) => {
      if (attempt === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
      return 'blocked'
    },
  }),
  defineJob('poison', { maxCrashes: 3, run: () => process.kill(process.pid, 'SIGKILL') }),
  defineJob('mild', { run: () => 'mild' }),
]
holdfast.jobs.work(definitions, { queues, concurrency })
process.send?.({ open: holdfast.id })
process.on('message', async (message) => {
  if (message !== 'close') return
  await holdfast.close()
  await log.end()
  process.disconnect()
})
