// One process of the fleet: opens Holdfast as a user would, and walks at random through one of its rooms. It is told over
// IPC when to begin and to end, and writes what it believes to a file of its own, a line for each event, so that nothing
// is lost when it is killed.
//
// The times are those of CLOCK_MONOTONIC, which all processes of a machine share. See believe() for what they mean. The
// clock that tells the time of day is wrong in many an actor, which must change nothing.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnreachableError, Holdfast, TooManyConnectionsError } from 'holdfast'
import { patiently } from '../setup/patiently.mjs'
import { randomFrom } from './random.mjs'

const { url, expiryMs, history, room, anchor, clockMs } = JSON.parse(process.argv[2])
const { step, close } = await import(`./walks/${room}.mjs`)
const file = openSync(history, 'a')
const lookEveryMs = 5

const now = () => process.hrtime.bigint().toString()
const write = (line) => writeSync(file, `${JSON.stringify(line)}\n`)

const TrueDate = Date
globalThis.Date = class extends TrueDate {
  constructor(...given) {
    if (given.length > 0) super(...given)
    else super(TrueDate.now() + clockMs)
  }

  static now() {
    return TrueDate.now() + clockMs
  }
}

const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor }))
const beliefs = new Set()
let isWalking = false
let beliefsBegun = 0
let lastLookAt = performance.now()

/** Half of the beliefs rely on the signal alone, so that it is tested by itself: `held` would wake it. */
setInterval(() => {
  // First, and once for all: the process may be frozen between any two lines of this.
  const at = now()
  // After a pause of the whole process timers may run in any order: then the clock must be asked, as a user should.
  const wasPaused = performance.now() - lastLookAt > 100
  lastLookAt = performance.now()
  for (const belief of beliefs) {
    const believes = wasPaused || belief.asksTheClock ? belief.handle.held : !belief.signal.aborted
    if (believes) write({ id: belief.id, event: 'believes', at })
    else beliefs.delete(belief)
  }
}, lookEveryMs).unref()

/** Believes in what is held (`held`, `signal`, `fence`) for as long as `during` lasts, and looks at it all the while. */
async function believe(handle, facts, random, during) {
  const id = `${process.pid}:${++beliefsBegun}`
  const at = now()
  if (!handle.held) return
  write({ id, event: 'granted', at, mode: 'exclusive', fence: handle.fence, ...facts })
  const belief = { id, handle, signal: handle.signal, asksTheClock: random.chance(0.5) }
  belief.signal.addEventListener('abort', () => write({ id, event: 'told', at: now() }))
  beliefs.add(belief)
  try {
    await during()
  } finally {
    const end = now()
    if (handle.held) write({ id, event: 'believes', at: end })
    beliefs.delete(belief)
  }
}

/** How long something is kept: mostly for a moment, at times so long that a fault strikes meanwhile. */
const keep = ({ holds }, random) => sleep(random.chance(holds.long) ? random.below(holds.longMs) : random.below(12))

/** A wait, an abort, or neither. Answers with the options, and with what takes the timer away again. */
function impatience(random) {
  const manner = random.fraction()
  if (manner < 0.35) return { options: { wait: random.below(50) }, forget() {} }
  if (manner > 0.65) return { options: {}, forget() {} }
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(changedMyMind), random.below(50))
  return { options: { signal: abort.signal }, forget: () => clearTimeout(timer) }
}

const changedMyMind = new Error('changed my mind')
const expectedCodes = new Set(['LOCK_TIMEOUT', 'LEASE_TIMEOUT', 'LIMIT_REACHED', 'ONCE_LOST'])

function isExpected(error) {
  return (
    error === changedMyMind ||
    error instanceof DatabaseUnreachableError ||
    error instanceof TooManyConnectionsError ||
    expectedCodes.has(error?.code)
  )
}

const stage = { holdfast, believe, keep, impatience, sleep, write }

async function flow(walk, random) {
  while (isWalking) {
    try {
      await step(stage, walk, random)
    } catch (error) {
      if (!isExpected(error)) {
        write({ id: '', event: 'unexpected', at: now(), schedule: walk.schedule, error: String(error?.stack ?? error) })
      }
    }
    await sleep(random.below(6))
  }
}

let flows = []
const orders = {
  walk(walk) {
    isWalking = true
    flows = Array.from({ length: walk.flowCount }, (_, i) => flow(walk, randomFrom(walk.seed + i)))
  },
  /** Begins nothing more. What waits without limit must be granted, now that everybody lets go. */
  async rest() {
    isWalking = false
    await Promise.all(flows)
    await close?.()
    process.send('rested')
  },
  /** Nothing of Holdfast may keep the process from ending by itself after this. */
  async close() {
    await holdfast.close()
    process.disconnect()
  },
}
process.on('message', ({ order, ...details }) => orders[order](details))
process.send(`open ${holdfast.id}`)
