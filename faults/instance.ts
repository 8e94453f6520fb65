// One process of the fleet: it opens Holdfast as a user would and does everything at once, at random. It is told over IPC when to rest, to
// close, to block its loop or to believe in another time of day, and writes what it believes into the history.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, HoldfastError } from 'holdfast'
import pg from 'pg'
import postgres from 'postgres'
import { type Random, randomFrom } from '../test/property/random.ts'
import type { Asked } from './fleet.ts'
import { now, writeHistory } from './history.ts'
import type { Fixture, Holding, Impatience } from './work/fixture.ts'
import { works } from './work/index.ts'

const { url, driver, anchor, expiryMs, history, seed, only, ...given }: Asked = JSON.parse(process.argv[2]!)
let { clockMs } = given
const write = writeHistory(history)
const lookEveryMs = 20

const TrueDate = Date
class WrongDate extends TrueDate {
  constructor(...parts: unknown[]) {
    if (parts.length > 0) super(...(parts as [number]))
    else super(TrueDate.now() + clockMs)
  }

  static override now() {
    return TrueDate.now() + clockMs
  }
}
globalThis.Date = WrongDate as DateConstructor

/** While the server is away, or has no room, an instance is started again and again, as any supervisor does. */
async function open() {
  for (;;) {
    const sql = driver === 'postgres.js' ? postgres(url, { onnotice() {}, connect_timeout: 5, max: 5 }) : undefined
    try {
      return await Holdfast.open({ ...(sql ? { sql } : { url }), expiry: expiryMs, anchor })
    } catch (error) {
      await sql?.end({ timeout: 1 }).catch(() => {})
      if (!(error as HoldfastError).retryable) throw error
      await sleep(200)
    }
  }
}

const holds = new Set<{ id: string; handle: Holding; signal: AbortSignal; asks: boolean }>()
let begun = 0
let lastLookAt = performance.now()

/** Half of the holds rely on the signal alone, so that it is tested by itself: `held` would wake it. */
setInterval(() => {
  // First: the process may be frozen between any two lines of this.
  const at = now()
  // After a pause of the whole process timers may run in any order: then the clock must be asked, as a user should.
  const wasPaused = performance.now() - lastLookAt > 100
  lastLookAt = performance.now()
  const ids: string[] = []
  for (const hold of holds) {
    const stillHolds = wasPaused || hold.asks ? hold.handle.held : !hold.signal.aborted
    if (stillHolds) ids.push(hold.id)
    else holds.delete(hold)
  }
  if (ids.length > 0) write('still-holds', { ids }, at)
}, lookEveryMs).unref()

/** Believes in what is held (`held`, `signal`, `fence`) for as long as `during` lasts, and looks at it all the while. */
async function believe<Result>(
  handle: Holding,
  what: readonly string[],
  facts: object,
  during: () => Promise<Result>,
): Promise<Result | undefined> {
  const { signal, fence = handle.term } = handle
  const at = now()
  if (!handle.held) return
  const id = `${process.pid}:${++begun}`
  write('granted', { id, pid: process.pid, what, fence, ...facts }, at)
  const hold = { id, handle, signal, asks: begun % 2 === 0 }
  signal.addEventListener('abort', () => write('told', { id }))
  holds.add(hold)
  try {
    return await during()
  } finally {
    const end = now()
    if (handle.held) write('still-holds', { ids: [id] }, end)
    holds.delete(hold)
  }
}

/** What has only a signal, as somebody that holds: runs of schedules, of jobs. Asked for anew, it notices a pause of the whole process. */
function byItsSignal(run: { signal: AbortSignal; fence: number }): Holding {
  return {
    signal: run.signal,
    fence: run.fence,
    get held() {
      return !run.signal.aborted
    },
  }
}

const pool = new pg.Pool({ connectionString: url, max: 4, connectionTimeoutMillis: 4_000, query_timeout: 6_000 })
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))

/** A transaction of the user's own. */
async function transaction<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  let client: pg.PoolClient | undefined
  let broken: Error | undefined
  try {
    client = await pool.connect()
    await client.query('begin')
    const answer = await work(client)
    await client.query('commit')
    return answer
  } catch (error) {
    await client?.query('rollback').catch((failure) => {
      broken = failure
    })
    if (error instanceof HoldfastError || (error as Error).cause === ofTheUser) throw error
    throw new Error(`the transaction failed: ${(error as Error).message}`, { cause: ofTheUser })
  } finally {
    client?.release(broken)
  }
}

/** Marks errors that are the user's own business. */
const ofTheUser = Symbol('of the user')

/** A wait, an abort, or neither. Answers with the options, and with what takes the timer away again. */
function impatience(random: Random): Impatience {
  const manner = random.fraction()
  if (manner < 0.35) return { options: { wait: random.below(50) }, forget() {} }
  if (manner > 0.65) return { options: { wait: 15_000 }, forget() {} }
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(changedMyMind), random.below(50))
  return { options: { signal: abort.signal }, forget: () => clearTimeout(timer) }
}
const changedMyMind = new Error('changed my mind', { cause: ofTheUser })

/** What must be expected of a database that is tormented: whatever can be tried again, what was waited for in vain, what was lost. */
const expected = new Set([
  'LOCK_TIMEOUT',
  'LOCK_LOST',
  'LEASE_TIMEOUT',
  'LEASE_LOST',
  'LIMIT_REACHED',
  'PERMIT_LOST',
  'ONCE_LOST',
  'STALE_FENCE',
  'RESOURCES_FAILED',
])
const isExpected = (error: Partial<HoldfastError>) =>
  error.cause === ofTheUser || error.retryable || expected.has(error.code ?? '')

const resting = new AbortController()

/** Mostly for a moment, at times so long that a fault strikes meanwhile, and outlasts the expiry; until the signal says that it is over. */
function keep(random: Random, signal?: AbortSignal, often = 0.05): Promise<void> {
  const ms = random.chance(often) ? random.below(4 * expiryMs) : random.below(15)
  const ends = [resting.signal, signal].filter((one) => one !== undefined)
  return sleep(ms, undefined, { signal: AbortSignal.any(ends) }).catch(() => {})
}

const walking = new Set<string>()

async function flow(name: string, step: (random: Random) => Promise<void>, random: Random) {
  walking.add(name)
  while (!resting.signal.aborted) {
    try {
      await step(random)
    } catch (error) {
      const known = error as Partial<HoldfastError>
      if (!isExpected(known)) write('unexpected', { error: String(known?.stack ?? error), code: known?.code })
      else await sleep(20)
    }
    await sleep(random.below(12))
  }
  walking.delete(name)
}

type Order = { order: keyof typeof orders }

const orders = {
  /** Begins nothing more. What waits without limit must be granted, now that everybody lets go. */
  async rest({ tellAfterMs }: { tellAfterMs: number }) {
    resting.abort()
    const late = setTimeout(() => {
      for (const name of walking) write('wrong', { says: `in process ${process.pid} a step in ${name} does not end` })
    }, tellAfterMs)
    await Promise.all(flows)
    clearTimeout(late)
    process.send?.('rested')
  },
  /** Nothing of Holdfast may keep the process from ending by itself after this. */
  async close() {
    await holdfast.close()
    await pool.end()
    process.disconnect()
  },
  block({ ms }: { ms: number }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  },
  believeIn(message: { clockMs: number }) {
    clockMs = message.clockMs
  },
}

process.on('message', ({ order, ...details }: Order) => orders[order](details as never))
process.on('disconnect', () => process.exit())
const holdfast = await open()
const stage: Fixture = {
  holdfast,
  pool,
  transaction,
  believe,
  byItsSignal,
  keep,
  impatience,
  sleep,
  write,
  expiryMs,
  anchor,
  ofTheUser,
}
const flows = Object.entries(works)
  .filter(([name]) => !only || only.includes(name))
  .flatMap(([name, work], room) => {
    const { step, flows: count = 1 } = work(stage)
    const walk = (at: number) => flow(`${name} ${at}`, step!, randomFrom(seed + 100 * room + at))
    return Array.from({ length: step ? count : 0 }, (_, at) => walk(at))
  })
process.send?.(`open ${holdfast.id}`)
