// A process that works. What it does with a job is in the input of the job.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  queues?: string[]
  anchor?: 'required' | 'none'
  concurrency?: number
}

/** What is done with a job. */
interface Work {
  name: string
  ms: number
  failures: number
  late?: boolean
}

const { url, expiryMs, queues, anchor, concurrency }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
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
    run: async ({ name, ms, failures, late }: Work, { id, tx, attempt }) => {
      if (!late) await tx.query('insert into effect values ($1, $2)', [id, name])
      await sleep(ms)
      if (Math.random() < failures) throw new Error(`attempt ${attempt}`)
      if (late) await tx.query('insert into effect values ($1, $2)', [id, name])
      return attempt
    },
  }),
  // Writes down that it begins, and answers with its fence, whatever has become of it meanwhile.
  defineJob('tell', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 100 },
    run: async ({ ms }: { ms: number }, { id, fence }) => {
      await log.query('insert into begun values ($1, $2)', [id, fence])
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
