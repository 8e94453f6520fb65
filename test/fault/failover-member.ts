// A process that works during a failover. The process acquires a few names in turn, and enqueues and runs jobs. It reports its holds with times
// on a clock that all processes of the machine share.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast, type HoldfastError } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  names: string[]
}

const { url, expiryMs, names }: Options = JSON.parse(process.argv[2]!)

const now = () => Number(process.hrtime.bigint() / 1_000n)
const report = (event: string, facts = {}) => process.connected && process.send?.({ event, at: now(), ...facts })
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, migrate: false, log: false }))
const closing = new AbortController()
let isFinishing = false

async function takeInTurn(name: string) {
  while (!closing.signal.aborted) {
    try {
      const lock = await holdfast.locks.acquire(name, { wait: '5s', signal: closing.signal })
      const { fence, signal } = lock
      report('granted', { name, fence })
      signal.addEventListener('abort', () => report('ended', { name, fence, lost: true }))
      await sleep(20 + Math.random() * 100)
      if (!signal.aborted) report('ended', { name, fence, lost: false })
      await lock.release()
    } catch (error) {
      if (!(error as Partial<HoldfastError>).retryable && !closing.signal.aborted)
        report('unexpected', { message: String(error) })
    }
    await sleep(Math.random() * 20)
  }
}

const note = defineJob('note', {
  run: ({ number }: { number: string }, { tx }) => tx.query('insert into effect values ($1)', [number]),
})

async function enqueue() {
  for (let number = 0; !isFinishing; number++) {
    const mine = `${process.pid} ${number}`
    try {
      await holdfast.jobs.enqueue(note, { number: mine })
      report('acknowledged', { number: mine })
    } catch (error) {
      if (!(error as Partial<HoldfastError>).retryable) report('unexpected', { message: String(error) })
      await sleep(20)
    }
    await sleep(Math.random() * 10)
  }
}

for (const name of names) void takeInTurn(name)
const enqueuing = enqueue()
holdfast.jobs.work([note], { concurrency: 5 })
report('open', { id: holdfast.id })
process.on('message', async (message) => {
  isFinishing = true
  await enqueuing
  if (message === 'finish') return report('finished')
  closing.abort()
  await holdfast.close()
  process.disconnect()
})
