// A process of the fleet that has schedules. It writes the starts of its runs and each check of their signals to its own file immediately, so no
// line is lost if the process is killed. The times are those of CLOCK_MONOTONIC, which all processes of a machine share. The process's clock is
// wrong by hours and changes while it runs. Schedules must not depend on this clock.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type ScheduleOptions, type ScheduleRun } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  history: string
  schedules: ({ name: string } & ScheduleOptions)[]
  clockMs: number
}

const { url, expiryMs, anchor, history, schedules, ...given }: Options = JSON.parse(process.argv[2]!)
let { clockMs } = given
const file = openSync(history, 'a')
const now = () => process.hrtime.bigint().toString()
const write = (line: object) => writeSync(file, `${JSON.stringify(line)}\n`)

const TrueDate = Date
class WrongDate extends TrueDate {
  constructor(...given: unknown[]) {
    if (given.length > 0) super(...(given as [number]))
    else super(TrueDate.now() + clockMs)
  }

  static override now() {
    return TrueDate.now() + clockMs
  }
}
globalThis.Date = WrongDate as DateConstructor

const holds = new Map<string, { run: ScheduleRun; signal: AbortSignal }>()
let runs = 0
let lastCheckAt = performance.now()

setInterval(() => {
  // Read before the checks, because the process may be frozen between any two lines.
  const at = now()
  // After a freeze, timers may run in any order. Then the check reads `run.signal`, which compares the clock.
  const wasPaused = performance.now() - lastCheckAt > 50
  lastCheckAt = performance.now()
  for (const [id, { run, signal }] of holds) {
    if (!(wasPaused ? run.signal : signal).aborted) write({ id, event: 'still-holds', at })
    else holds.delete(id)
  }
}, 5).unref()

const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))

/** Runs for a few milliseconds, or sometimes until after the next tick, so that a fault happens in between. */
async function work(run: ScheduleRun) {
  const { signal, tick, name, fence, attempt, tx } = run
  const id = `${process.pid}:${++runs}`
  write({ id, event: 'starts', at: now(), schedule: name, tick: tick.getTime(), fence, attempt })
  holds.set(id, { run, signal })
  process.send?.({ started: name, attempt })
  try {
    if (name === 'hold') await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    if (Math.random() < 0.7) await tx.query('insert into effect values ($1, $2, $3)', [name, tick, fence])
    const ms = Math.random() < 0.3 ? 300 + Math.random() * 2_000 : Math.random() * 40
    await sleep(ms, undefined, { signal })
    if (Math.random() < 0.1) throw new Error('by chance')
    if (!run.signal.aborted) write({ id, event: 'still-holds', at: now() })
  } finally {
    holds.delete(id)
  }
}

for (const { name, ...options } of schedules) holdfast.schedules.add(name, options, work)
process.send?.({ open: holdfast.id })
process.on('message', async (message: 'close' | { clockMs: number }) => {
  if (message !== 'close') {
    clockMs = message.clockMs
    return
  }
  await holdfast.close()
  process.disconnect()
})
