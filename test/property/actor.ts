// One process of the fleet: opens Holdfast as a user would, and walks at random through one of its rooms. It is told over
// IPC when to begin and to end, and writes what it believes to a file of its own, a line for each event, so that nothing
// is lost when it is killed.
//
// The times are those of CLOCK_MONOTONIC, which all processes of a machine share. See believe() for what they mean. The
// clock that tells the time of day is wrong in many an actor, which must change nothing.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnreachableError, Holdfast, type HoldfastError, TooManyConnectionsError } from 'holdfast'
import { patiently } from '../setup/patiently.ts'
import { type Random, randomFrom } from './random.ts'
import type { Fixture, Holding, Impatience, Step, Walk } from './walks/fixture.ts'

interface Given {
  url: string
  expiryMs: number
  history: string
  room: string
  anchor: 'required' | 'none'
  clockMs: number
}

const { url, expiryMs, history, room, anchor, clockMs }: Given = JSON.parse(process.argv[2]!)
const { step }: { step: Step } = await import(`./walks/${room}.ts`)
const file = openSync(history, 'a')
const lookEveryMs = 5

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

const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const holds = new Set<{ id: string; handle: Holding; signal: AbortSignal; asksTheClock: boolean }>()
let isWalking = false
let beliefsBegun = 0
let lastLookAt = performance.now()

/** Half of the holds rely on the signal alone, so that it is tested by itself: `held` would wake it. */
setInterval(() => {
  // First, and once for all: the process may be frozen between any two lines of this.
  const at = now()
  // After a pause of the whole process timers may run in any order: then the clock must be asked, as a user should.
  const wasPaused = performance.now() - lastLookAt > 100
  lastLookAt = performance.now()
  for (const hold of holds) {
    const stillHolds = wasPaused || hold.asksTheClock ? hold.handle.held : !hold.signal.aborted
    if (stillHolds) write({ id: hold.id, event: 'still-holds', at })
    else holds.delete(hold)
  }
}, lookEveryMs).unref()

/** Believes in what is held (`held`, `signal`, `fence`) for as long as `during` lasts, and looks at it all the while. */
async function believe(handle: Holding, facts: object, random: Random, during: () => Promise<void>) {
  const id = `${process.pid}:${++beliefsBegun}`
  const at = now()
  if (!handle.held) return
  write({ id, event: 'granted', at, mode: 'exclusive', fence: handle.fence, ...facts })
  const hold = { id, handle, signal: handle.signal, asksTheClock: random.chance(0.5) }
  hold.signal.addEventListener('abort', () => write({ id, event: 'told', at: now() }))
  holds.add(hold)
  try {
    await during()
  } finally {
    const end = now()
    if (handle.held) write({ id, event: 'still-holds', at: end })
    holds.delete(hold)
  }
}

/** How long something is kept: mostly for a moment, at times so long that a fault strikes meanwhile. */
const keep = ({ holds }: Walk, random: Random) =>
  sleep(random.chance(holds.long) ? random.below(holds.longMs) : random.below(12))

/** A wait, an abort, or neither. Answers with the options, and with what takes the timer away again. */
function impatience(random: Random): Impatience {
  const manner = random.fraction()
  if (manner < 0.35) return { options: { wait: random.below(50) }, forget() {} }
  if (manner > 0.65) return { options: {}, forget() {} }
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(changedMyMind), random.below(50))
  return { options: { signal: abort.signal }, forget: () => clearTimeout(timer) }
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

const stage: Fixture = { holdfast, believe, keep, impatience, sleep, write }

async function flow(walk: Walk, random: Random) {
  while (isWalking) {
    try {
      await step(stage, walk, random)
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
  /** Begins nothing more. What waits without limit must be granted, now that everybody lets go. */
  async rest() {
    isWalking = false
    await Promise.all(flows)
    process.send?.('rested')
  },
  /** Nothing of Holdfast may keep the process from ending by itself after this. */
  async close() {
    await holdfast.close()
    process.disconnect()
  },
}
process.on('message', ({ order, ...details }: { order: keyof typeof orders } & Walk) => orders[order](details))
process.send?.(`open ${holdfast.id}`)
