// A process on a cluster whose leader changes. It takes locks and leases in turn with others, or keeps them, and looks all the time whether
// it has them; it enqueues jobs, and runs them. It tells when, in the time of CLOCK_MONOTONIC, which all processes of a machine share.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast, HoldfastError, type Lease, type Lock } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  directUrl?: string
  expiryMs: number
}

const { url, directUrl, expiryMs }: Given = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, directUrl, expiry: expiryMs }))
const now = () => process.hrtime.bigint().toString()
const closing = new AbortController()
const { signal } = closing

const write = defineJob('write', {
  maxCrashes: 1_000,
  retry: { attempts: 1_000, backoff: 50, maxBackoff: 1_000 },
  run: (name: string, { tx }) => tx.query('insert into effect values ($1)', [name]),
})
holdfast.jobs.work([write])
holdfast.on('job.done', () => process.send?.({ event: 'done', at: now() }))

const acquire = {
  lock: (name: string) => holdfast.locks.acquire(name, { signal }),
  lease: (name: string) => holdfast.leases.acquire(name, { ttl: '5s', signal }),
}
const walks = [
  ...(['lock', 'lease'] as const).flatMap((kind) => [
    repeat((turn) => takeTurns(kind, turn)),
    repeat((turn) => keep(kind, turn)),
  ]),
  repeat(enqueue),
]
const orders = {
  /** Begins nothing more, but runs the jobs that there are. */
  async rest() {
    closing.abort()
    await Promise.all(walks)
    process.send?.({ event: 'rests' })
  },
  async close() {
    await holdfast.close()
    process.disconnect()
  },
}
process.on('message', (order: keyof typeof orders) => orders[order]())

/** Calls that fail while the database is away may be tried again. */
async function repeat(step: (turn: number) => Promise<void>) {
  for (let turn = 0; !signal.aborted; turn++) {
    await step(turn).catch((error) => {
      if (signal.aborted || (error instanceof HoldfastError && error.retryable)) return
      process.send?.({ event: 'unexpected', error: String(error?.stack ?? error) })
    })
    await sleep(20)
  }
}

/** Every other time it asks the clock; otherwise it relies on what the signal tells, so that this is tested by itself. */
async function takeTurns(kind: keyof typeof acquire, turn: number) {
  const handle = await acquire[kind](`${kind} in turn`)
  const { signal: lost } = handle
  const isTrusted = () => (turn % 2 === 0 ? handle.held : !lost.aborted)
  await believe(handle, turn, (looks) => looks < 40 && isTrusted())
}

/** Until it is told that it has lost it, so that whatever happens, somebody holds it then. */
async function keep(kind: keyof typeof acquire, turn: number) {
  const handle = await acquire[kind](`${kind} kept`)
  const { signal: lost } = handle
  await believe(handle, turn, () => !lost.aborted && !signal.aborted)
}

async function believe(handle: Lock | Lease, turn: number, goesOn: (looks: number) => boolean) {
  const from = now()
  if (!handle.held) return
  const { name, fence } = handle
  let to = from
  for (let looks = 0; ; looks++) {
    const at = now()
    if (!goesOn(looks)) break
    to = at
    await sleep(5)
  }
  process.send?.({ event: 'believed', name, id: `${process.pid}:${name} ${turn}`, fence, from, to })
  await handle.release()
}

async function enqueue(turn: number) {
  const name = `${process.pid}:${turn}`
  await holdfast.jobs.enqueue(write, name)
  process.send?.({ event: 'acknowledged', name, at: now() })
}
