// One of the fleet's processes. The process opens Holdfast as a user would, usually once, performs random operations in all
// rooms at the same time, and writes its holds and results into the history. Orders over IPC make it finish, close, block
// its event loop or change its clock.
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, HoldfastError } from 'holdfast'
import pg from 'pg'
import postgres from 'postgres'
import { type Random, randomFrom } from '../test/property/random.ts'
import type { InstanceOptions } from './fleet.ts'
import { now, writeHistory } from './history.ts'
import type { Fixture, Handle, RandomWait } from './work/fixture.ts'
import { workloads } from './work/index.ts'

const { url, instances, driver, anchor, expiryMs, pauseMs, history, seed, onlyRooms, ...given }: InstanceOptions =
  JSON.parse(process.argv[2]!)
let { clockMs } = given
const write = writeHistory(history)
const checkEveryMs = 20

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

const reportOpeningAfterMs = 50_000

/** Opens Holdfast. Tries again while the server is down or full, as a process supervisor would. */
async function open() {
  let last: unknown
  const late = setTimeout(
    () => console.error(`process ${process.pid} (${driver}, anchor ${anchor}) is still opening. Last error: ${last}`),
    reportOpeningAfterMs,
  )
  for (;;) {
    const sql = driver === 'postgres.js' ? postgres(url, { onnotice() {}, connect_timeout: 5, max: 5 }) : undefined
    try {
      const holdfast = await Holdfast.open({ ...(sql ? { sql } : { url }), expiry: expiryMs, anchor, log: false })
      clearTimeout(late)
      return holdfast
    } catch (error) {
      last = error
      await sql?.end({ timeout: 1 }).catch(() => {})
      if (!(error as HoldfastError).retryable) throw error
      await sleep(200)
    }
  }
}

const holds = new Set<{ id: string; handle: Handle; signal: AbortSignal; readsHeld: boolean }>()
let holdCount = 0
let lastCheckAt = performance.now()

/** Checks all holds. Half of them rely on the signal alone: a read of `held` would abort the signal, so the signal would not be tested. */
setInterval(() => {
  // Before the checks, because the process may be frozen between any two lines.
  const at = now()
  // After a freeze, timers may run in any order. Then the check reads `held`, which compares the clock, as a user should.
  const wasPaused = performance.now() - lastCheckAt > 100
  lastCheckAt = performance.now()
  const ids: string[] = []
  for (const hold of holds) {
    const stillHolds = wasPaused || hold.readsHeld ? hold.handle.held : !hold.signal.aborted
    if (stillHolds) ids.push(hold.id)
    else holds.delete(hold)
  }
  if (ids.length > 0) write('still-holds', { ids }, at)
}, checkEveryMs).unref()

/** Records the handle's hold in the history while `during` runs. Then releases the handle, if it has a release. */
async function recordHold<Result>(
  holder: string,
  handle: Handle,
  names: readonly string[],
  facts: object,
  during: (id: string) => Promise<Result>,
): Promise<Result | undefined> {
  const { signal, fence = handle.term } = handle
  const at = now()
  if (!handle.held) {
    await handle.release?.()
    return
  }
  const id = `${process.pid}:${++holdCount}`
  write('granted', { id, holder, names, fence, ...facts }, at)
  const hold = { id, handle, signal, readsHeld: holdCount % 2 === 0 }
  signal.addEventListener('abort', () => write('notified', { id }))
  holds.add(hold)
  try {
    return await during(id)
  } finally {
    const end = now()
    if (handle.held) write('still-holds', { ids: [id] }, end)
    holds.delete(hold)
    if (handle.release) {
      await handle.release()
      write('released', { id })
    }
  }
}

/**
 * Makes a handle for a job's or a schedule's run, which has only a signal. Reads `run.signal` each time, so that it
 * notices a freeze.
 */
function handleOf(run: { signal: AbortSignal; fence: number }): Handle {
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

/** Runs `work` in one of the user's transactions. */
async function transaction<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  let client: pg.PoolClient | undefined
  let broken: Error | undefined
  try {
    client = await pool.connect()
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client?.query('rollback').catch((failure) => {
      broken = failure
    })
    if (error instanceof HoldfastError || (error as Error).cause === userError) throw error
    throw new Error(`the transaction failed: ${(error as Error).message}`, { cause: userError })
  } finally {
    client?.release(broken)
  }
}

/** Cause of errors that the user's own code throws. */
const userError = Symbol('user error')

/** Chooses a short wait, a long wait, or an abort. */
function randomWait(random: Random): RandomWait {
  const choice = random.fraction()
  if (choice < 0.35) return { options: { wait: random.below(50) }, clear() {} }
  if (choice > 0.65) return { options: { wait: 15_000 }, clear() {} }
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(changedMyMind), random.below(50))
  return { options: { signal: abort.signal }, clear: () => clearTimeout(timer) }
}
const changedMyMind = new Error('changed my mind', { cause: userError })

/** Errors that the faults explain, in addition to retryable ones: timeouts and losses. */
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
  // The user's own transaction, while the default isolation level of the role is changed.
  'ISOLATION_LEVEL',
])
const isExpected = (error: Partial<HoldfastError>) =>
  error.cause === userError || error.retryable || expected.has(error.code ?? '')

const finishing = new AbortController()
setMaxListeners(0, finishing.signal)

/** Pauses until the signal aborts: usually for a few milliseconds, sometimes longer than the expiry, so that a fault happens in between. */
function pause(random: Random, signal?: AbortSignal, longShare = 0.05): Promise<void> {
  const ms = random.chance(longShare) ? random.below(4 * expiryMs) : random.below(15)
  const ends = [finishing.signal, signal].filter((one) => one !== undefined)
  return sleep(ms, undefined, { signal: AbortSignal.any(ends) }).catch(() => {})
}

const activeFlows = new Set<string>()

async function flow(name: string, step: (random: Random) => Promise<void>, random: Random) {
  activeFlows.add(name)
  while (!finishing.signal.aborted) {
    try {
      await step(random)
    } catch (error) {
      const known = error as Partial<HoldfastError>
      if (!isExpected(known)) write('unexpected', { error: String(known?.stack ?? error), code: known?.code })
      else await sleep(20)
    }
    await sleep(random.below(pauseMs), undefined, { signal: finishing.signal }).catch(() => {})
  }
  activeFlows.delete(name)
}

type Order = { order: keyof typeof orders }

const orders = {
  /** Starts no more steps. All other processes release their holds as well, so every waiting call must be granted. */
  async finish({ reportAfterMs }: { reportAfterMs: number }) {
    finishing.abort()
    const late = setTimeout(() => {
      for (const name of activeFlows)
        write('wrong', { text: `a step of ${name} in process ${process.pid} does not end` })
    }, reportAfterMs)
    await Promise.all(flows)
    clearTimeout(late)
    process.send?.('finished')
  },
  /** Closes Holdfast. Afterwards, nothing in Holdfast may keep the process alive. */
  async close() {
    await Promise.all(fleet.map((holdfast) => holdfast.close()))
    await pool.end()
    process.disconnect()
  },
  block({ ms }: { ms: number }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  },
  setClock(message: { clockMs: number }) {
    clockMs = message.clockMs
  },
}

process.on('message', ({ order, ...details }: Order) => orders[order](details as never))
process.on('disconnect', () => process.exit())
const fleet = await Promise.all(Array.from({ length: instances }, open))
const flows = fleet.flatMap((holdfast, index) => {
  const holder = instances > 1 ? `${process.pid}.${index}` : String(process.pid)
  const fixture: Fixture = {
    holdfast,
    holder,
    pool,
    transaction,
    recordHold: (...given) => recordHold(holder, ...given),
    handleOf,
    pause,
    randomWait,
    sleep,
    write,
    expiryMs,
    anchor,
    userError,
  }
  return Object.entries(workloads)
    .filter(([name]) => !onlyRooms || onlyRooms.includes(name))
    .flatMap(([name, work], room) => {
      const { step, flows: count = 1 } = work(fixture)
      const walk = (at: number) => {
        const random = randomFrom(seed + 100 * room + at + 10_000_000 * index)
        return flow(`${name} ${at} of ${holdfast.id}`, step!, random)
      }
      return Array.from({ length: step ? count : 0 }, (_, at) => walk(at))
    })
})
process.send?.({ opened: fleet.map(({ id }) => id) })
