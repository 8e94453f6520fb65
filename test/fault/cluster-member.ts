// A process on a cluster whose leader changes. The process takes locks and leases in turn with others or keeps them, checks them every 5 ms, and
// enqueues and runs jobs. It reports the times on CLOCK_MONOTONIC, which all processes of a machine share.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast, HoldfastError, type Lease, type Lock } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  directUrl?: string
  expiryMs: number
}

const { url, directUrl, expiryMs }: Options = JSON.parse(process.argv[2]!)
const holdfast = await patiently(() => Holdfast.open({ url, directUrl, expiry: expiryMs, log: false }))
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
const loops = [
  ...(['lock', 'lease'] as const).flatMap((kind) => [
    repeat((turn) => takeTurns(kind, turn)),
    repeat((turn) => keep(kind, turn)),
  ]),
  repeat(enqueue),
]
const orders = {
  /** Starts no more operations, but continues to run jobs. */
  async finish() {
    closing.abort()
    await Promise.all(loops)
    process.send?.({ event: 'finished' })
  },
  async close() {
    await holdfast.close()
    process.disconnect()
  },
}
process.on('message', (order: keyof typeof orders) => orders[order]())

/** Repeats `step`. Ignores retryable errors, which calls throw while the database is down. */
async function repeat(step: (turn: number) => Promise<void>) {
  for (let turn = 0; !signal.aborted; turn++) {
    await step(turn).catch((error) => {
      if (signal.aborted || (error instanceof HoldfastError && error.retryable)) return
      process.send?.({ event: 'unexpected', error: String(error?.stack ?? error) })
    })
    await sleep(20)
  }
}

/** Holds the name for up to 40 checks. Every other hold relies on the signal alone, because a read of `held` would abort the signal. */
async function takeTurns(kind: keyof typeof acquire, turn: number) {
  const handle = await acquire[kind](`${kind} in turn`)
  const { signal: lost } = handle
  const isValid = () => (turn % 2 === 0 ? handle.held : !lost.aborted)
  await holdWhile(handle, turn, (checks) => checks < 40 && isValid())
}

/** Holds the name until it is lost, so that there is a holder during every fault. */
async function keep(kind: keyof typeof acquire, turn: number) {
  const handle = await acquire[kind](`${kind} kept`)
  const { signal: lost } = handle
  await holdWhile(handle, turn, () => !lost.aborted && !signal.aborted)
}

async function holdWhile(handle: Lock | Lease, turn: number, isValid: (checks: number) => boolean) {
  const from = now()
  if (!handle.held) return
  const { name, fence } = handle
  let to = from
  for (let checks = 0; ; checks++) {
    const at = now()
    if (!isValid(checks)) break
    to = at
    await sleep(5)
  }
  process.send?.({ event: 'held', name, id: `${process.pid}:${name} ${turn}`, fence, from, to })
  await handle.release()
}

async function enqueue(turn: number) {
  const name = `${process.pid}:${turn}`
  await holdfast.jobs.enqueue(write, name)
  process.send?.({ event: 'acknowledged', name, at: now() })
}
