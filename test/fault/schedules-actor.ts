// A process of the fleet that has schedules. What its handlers do, and for how long they believe in their runs, it writes to
// a file of its own, a line for each event, so that nothing is lost when it is killed. Times are those of CLOCK_MONOTONIC,
// which all processes of a machine share. Its clock of the day is wrong by hours, and moved by hours
// while it runs, which must change nothing.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type ScheduleOptions, type ScheduleRun } from 'holdfast'
import { patiently } from '../setup/patiently.ts'

interface Given {
  url: string
  expiryMs: number
  anchor?: 'required' | 'none'
  history: string
  schedules: ({ name: string } & ScheduleOptions)[]
  clockMs: number
}

const { url, expiryMs, anchor, history, schedules, ...given }: Given = JSON.parse(process.argv[2]!)
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
let lastLookAt = performance.now()

setInterval(() => {
  // First, and once for all: the process may be frozen between any two lines of this.
  const at = now()
  // After a pause of the whole process timers may run in any order: then the clock must be asked, as `run.signal` does.
  const wasPaused = performance.now() - lastLookAt > 50
  lastLookAt = performance.now()
  for (const [id, { run, signal }] of holds) {
    if (!(wasPaused ? run.signal : signal).aborted) write({ id, event: 'still-holds', at })
    else holds.delete(id)
  }
}, 5).unref()

const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))

/** Mostly for a moment, at times for so long that the next tick, or a fault, comes meanwhile. */
async function work(run: ScheduleRun) {
  const { signal, tick, name, fence, attempt, tx } = run
  const id = `${process.pid}:${++runs}`
  write({ id, event: 'begins', at: now(), schedule: name, tick: tick.getTime(), fence, attempt })
  holds.set(id, { run, signal })
  process.send?.({ began: name, attempt })
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
