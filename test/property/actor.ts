// One process of the fleet. The process opens Holdfast as a user would, and performs random operations in one room. Orders over IPC start and end
// the operations. The process writes each event to its own file immediately, so no event is lost if the process is killed.
//
// The times are those of CLOCK_MONOTONIC, which all processes of a machine share. See recordHold() for their meaning. In many processes, the clock
// for the time of day is wrong. Holdfast must not depend on that clock.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnreachableError, Holdfast, type HoldfastError, TooManyConnectionsError } from 'holdfast'
import { patiently } from '../setup/patiently.ts'
import { type Random, randomFrom } from './random.ts'
import type { Fixture, Handle, RandomWait, Step, Walk } from './walks/fixture.ts'

interface Options {
  url: string
  expiryMs: number
  history: string
  room: string
  anchor: 'required' | 'none'
  clockMs: number
}

const { url, expiryMs, history, room, anchor, clockMs }: Options = JSON.parse(process.argv[2]!)
const { step }: { step: Step } = await import(`./walks/${room}.ts`)
const file = openSync(history, 'a')
const checkEveryMs = 5

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

const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
const holds = new Set<{ id: string; handle: Handle; signal: AbortSignal; readsHeld: boolean }>()
let isWalking = false
let holdCount = 0
let lastCheckAt = performance.now()

/** Checks all holds. Half of them rely on the signal alone: a read of `held` would abort the signal, so the signal would not be tested. */
setInterval(() => {
  // Read before the checks, because the process may be frozen between any two lines.
  const at = now()
  // After a freeze, timers may run in any order. Then the check reads `held`, which compares the clock, as a user should.
  const wasPaused = performance.now() - lastCheckAt > 100
  lastCheckAt = performance.now()
  for (const hold of holds) {
    const stillHolds = wasPaused || hold.readsHeld ? hold.handle.held : !hold.signal.aborted
    if (stillHolds) write({ id: hold.id, event: 'still-holds', at })
    else holds.delete(hold)
  }
}, checkEveryMs).unref()

/** Records the hold of the handle in the history while `during` runs. */
async function recordHold(handle: Handle, facts: object, random: Random, during: () => Promise<void>) {
  const id = `${process.pid}:${++holdCount}`
  const at = now()
  if (!handle.held) return
  write({ id, event: 'granted', at, mode: 'exclusive', fence: handle.fence, ...facts })
  const hold = { id, handle, signal: handle.signal, readsHeld: random.chance(0.5) }
  hold.signal.addEventListener('abort', () => write({ id, event: 'notified', at: now() }))
  holds.add(hold)
  try {
    await during()
  } finally {
    const end = now()
    if (handle.held) write({ id, event: 'still-holds', at: end })
    holds.delete(hold)
  }
}

/** Pauses with the hold: usually for a few milliseconds, sometimes long enough that a fault happens in between. */
const pause = ({ holds }: Walk, random: Random) =>
  sleep(random.chance(holds.long) ? random.below(holds.longMs) : random.below(12))

/** Chooses a short wait, an unlimited wait, or an abort. */
function randomWait(random: Random): RandomWait {
  const choice = random.fraction()
  if (choice < 0.35) return { options: { wait: random.below(50) }, clear() {} }
  if (choice > 0.65) return { options: {}, clear() {} }
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(changedMyMind), random.below(50))
  return { options: { signal: abort.signal }, clear: () => clearTimeout(timer) }
}

const changedMyMind = new Error('changed my mind')
const expectedCodes = new Set(['LOCK_TIMEOUT', 'LEASE_TIMEOUT', 'LIMIT_REACHED', 'ONCE_LOST'])

function isExpected(error: unknown) {
  return (
    error === changedMyMind ||
    error instanceof DatabaseUnreachableError ||
    error instanceof TooManyConnectionsError ||
    expectedCodes.has((error as HoldfastError).code)
  )
}

const fixture: Fixture = { holdfast, recordHold, pause, randomWait, sleep, write }

async function flow(walk: Walk, random: Random) {
  while (isWalking) {
    try {
      await step(fixture, walk, random)
    } catch (error) {
      if (!isExpected(error)) {
        write({
          id: '',
          event: 'unexpected',
          at: now(),
          schedule: walk.schedule,
          error: String((error as Error).stack ?? error),
        })
      }
    }
    await sleep(random.below(6))
  }
}

let flows: Promise<void>[] = []
const orders = {
  walk(walk: Walk) {
    isWalking = true
    flows = Array.from({ length: walk.flowCount }, (_, i) => flow(walk, randomFrom(walk.seed + i)))
  },
  /** Starts no more steps. All other processes release their holds as well, so every waiting call must be granted. */
  async finish() {
    isWalking = false
    await Promise.all(flows)
    process.send?.('finished')
  },
  /** Closes Holdfast. Afterwards, nothing in Holdfast may keep the process alive. */
  async close() {
    await holdfast.close()
    process.disconnect()
  },
}
process.on('message', ({ order, ...details }: { order: keyof typeof orders } & Walk) => orders[order](details))
process.send?.(`open ${holdfast.id}`)
