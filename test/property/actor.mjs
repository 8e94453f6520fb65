// One process of the fleet: opens Holdfast as a user would, and walks at random. It is told over IPC when to begin and to
// end, and writes what it believes to a file of its own, a line for each event, so that nothing is lost when it is killed.
//
// The times are those of CLOCK_MONOTONIC, which all processes of a machine share. See believe() for what they mean.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnreachableError, Holdfast, LockTimeoutError, TooManyConnectionsError } from 'holdfast'
import { randomFrom } from './random.mjs'

const { url, expiryMs, history } = JSON.parse(process.argv[2])
const file = openSync(history, 'a')
const lookEveryMs = 5

const now = () => process.hrtime.bigint().toString()
const write = (line) => writeSync(file, `${JSON.stringify(line)}\n`)

const holdfast = await Holdfast.open({ url, expiry: expiryMs })
const beliefs = new Set()
let isWalking = false
let beliefsBegun = 0
let lastLookAt = performance.now()

setInterval(() => {
  // After a pause of the whole process timers may run in any order: then the clock must be asked, as a user should.
  const wasPaused = performance.now() - lastLookAt > 100
  lastLookAt = performance.now()
  for (const belief of beliefs) look(belief, wasPaused)
}, lookEveryMs).unref()

/** Half of the beliefs rely on the signal alone, so that it is tested by itself: `held` would wake it. */
function look(belief, asksTheClock) {
  const at = now()
  const believes = asksTheClock || belief.asksTheClock ? belief.lock.held : !belief.signal.aborted
  if (believes) write({ id: belief.id, event: 'believes', at })
  else beliefs.delete(belief)
}

async function hold(lock, { schedule, holds }, random) {
  const id = `${process.pid}:${++beliefsBegun}`
  const at = now()
  if (lock.held) {
    const { names, mode, fence } = lock
    write({ id, event: 'granted', at, schedule, names, mode, fence })
    const belief = { id, lock, signal: lock.signal, asksTheClock: random.chance(0.5) }
    belief.signal.addEventListener('abort', () => write({ id, event: 'told', at: now() }))
    beliefs.add(belief)
    await sleep(random.chance(holds.long) ? random.below(holds.longMs) : random.below(12))
    const end = now()
    if (lock.held) write({ id, event: 'believes', at: end })
    beliefs.delete(belief)
  }
  await lock.release()
  if (random.chance(0.05)) await lock.release()
}

async function step(walk, random) {
  const { schedule, names } = walk
  const options = { mode: random.chance(0.3) ? 'shared' : 'exclusive' }
  const asked = random.chance(0.2) ? random.some(names, 1 + random.below(names.length)) : random.pick(names)
  const manner = random.fraction()
  const abort = new AbortController()
  let timer
  if (manner < 0.35) options.wait = random.below(50)
  else if (manner < 0.65) {
    options.signal = abort.signal
    timer = setTimeout(() => abort.abort(new Error('changed my mind')), random.below(50))
  }
  try {
    const tries = random.chance(0.2)
    const lock = await (tries ? holdfast.locks.tryAcquire(asked, options) : holdfast.locks.acquire(asked, options))
    if (lock) await hold(lock, walk, random)
  } catch (error) {
    const isExpected = [LockTimeoutError, DatabaseUnreachableError, TooManyConnectionsError].some(
      (kind) => error instanceof kind,
    )
    if (!isExpected && error !== abort.signal.reason) {
      write({ id: '', event: 'unexpected', at: now(), schedule, error: String(error?.stack ?? error) })
    }
  } finally {
    clearTimeout(timer)
  }
}

async function flow(walk, random) {
  while (isWalking) {
    await step(walk, random)
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
