// An instance that works through a failover: it takes a few names in turn, and enqueues and runs jobs. It tells what it believes,
// and from when to when, on the clock that all processes of a machine share.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast, type HoldfastError } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  names: string[]
}

const { url, expiryMs, names }: Given = JSON.parse(process.argv[2]!)

const now = () => Number(process.hrtime.bigint() / 1_000n)
const tell = (event: string, facts = {}) => process.connected && process.send?.({ event, at: now(), ...facts })
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, migrate: false }))
const closing = new AbortController()
let isEnough = false

async function takeInTurn(name: string) {
  while (!closing.signal.aborted) {
    try {
      const lock = await holdfast.locks.acquire(name, { wait: '5s', signal: closing.signal })
      const { fence, signal } = lock
      tell('granted', { name, fence })
      signal.addEventListener('abort', () => tell('over', { name, fence, lost: true }))
      await sleep(20 + Math.random() * 100)
      if (!signal.aborted) tell('over', { name, fence, lost: false })
      await lock.release()
    } catch (error) {
      if (!(error as Partial<HoldfastError>).retryable && !closing.signal.aborted)
        tell('trouble', { message: String(error) })
    }
    await sleep(Math.random() * 20)
  }
}

const note = defineJob('note', {
  run: ({ number }: { number: string }, { tx }) => tx.query('insert into noted values ($1)', [number]),
})

async function enqueue() {
  for (let number = 0; !isEnough; number++) {
    const mine = `${process.pid} ${number}`
    try {
      await holdfast.jobs.enqueue(note, { number: mine })
      tell('acknowledged', { number: mine })
    } catch (error) {
      if (!(error as Partial<HoldfastError>).retryable) tell('trouble', { message: String(error) })
      await sleep(20)
    }
    await sleep(Math.random() * 10)
  }
}

for (const name of names) void takeInTurn(name)
const enqueuing = enqueue()
holdfast.jobs.work([note], { concurrency: 5 })
tell('open', { id: holdfast.id })
process.on('message', async (message) => {
  isEnough = true
  await enqueuing
  if (message === 'enough') return tell('quiet')
  closing.abort()
  await holdfast.close()
  process.disconnect()
})
