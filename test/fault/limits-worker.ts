// A process that acquires permits at random until it receives a request to stop. It writes each check of its holds to its own file immediately, so no line is
// lost if the process is killed. The times are those of CLOCK_MONOTONIC, which all processes of a machine share.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnreachableError, Holdfast, type LimitOptions, LimitReachedError, type Permit } from 'holdfast'
import { type Random, randomFrom } from '../property/random.ts'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  history: string
  limits: { name: string; max: number }[]
  anchor?: 'required' | 'none'
  seed: number
  lanes: number
}

const { url, expiryMs, history, limits, anchor, seed, lanes }: Options = JSON.parse(process.argv[2]!)
const file = openSync(history, 'a')
const write = (line: object) => writeSync(file, `${JSON.stringify(line)}\n`)
const now = () => Number(process.hrtime.bigint() / 1_000n)

const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const holds = new Map<string, Permit>()
let holdCount = 0
let isRunning = true

function check() {
  for (const [id, permit] of holds) {
    // Read before `held`, so that the hold was valid at this time.
    const at = now()
    if (permit.held) write({ id, event: 'still-holds', at })
    else holds.delete(id)
  }
}
setInterval(check, 5)

async function run(random: Random) {
  while (isRunning) {
    const { name, max } = random.pick(limits)
    const weight = random.chance(0.3) ? 1 + random.below(max) : 1
    const options: LimitOptions & { wait?: number; signal?: AbortSignal } = { max, weight }
    const abort = new AbortController()
    if (random.chance(0.8)) options.wait = random.chance(0.5) ? random.below(60) : 5_000
    if (random.chance(0.3)) {
      options.signal = abort.signal
      setTimeout(() => abort.abort('changed my mind'), random.below(80))
    }
    try {
      const permit = await holdfast.limits.acquire(name, options)
      const id = `${process.pid}:${++holdCount}`
      const at = now()
      if (permit.held) {
        write({ id, event: 'granted', at, name, weight, fence: permit.fence })
        holds.set(id, permit)
        await sleep(random.chance(0.05) ? random.below(1_000) : random.below(15))
        check()
        holds.delete(id)
      }
      await permit.release()
    } catch (error) {
      if (error instanceof LimitReachedError) await sleep(1 + random.below(5))
      else if (error instanceof DatabaseUnreachableError) await sleep(20)
      else if (error !== 'changed my mind')
        write({ id: '', event: 'unexpected', at: now(), error: String((error as Error).stack ?? error) })
    }
  }
}

process.send?.('ready')
process.on('message', () => {
  isRunning = false
})
await Promise.all(Array.from({ length: lanes }, (_, lane) => run(randomFrom(seed * 100 + lane))))
await holdfast.close()
process.exit(0)
