// The order in which replies reach two instances is chosen by the scheduler of fast-check. README.md explains how to repeat a failure.
import fc, { type Scheduler } from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClosedError, defineJob, Holdfast, type HoldfastOptions, type Lease, type Lock } from '../../src/index.js'
import { seedOf } from '../property/seed.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { gate, sql, until } from '../setup/facts.js'
import { patiently } from '../setup/patiently.js'
import { runsAll } from '../setup/variants.js'
import { HeldReplies } from './held-replies.js'

const seed = seedOf('interleavings')
const runs = (count: number) => (runsAll ? 10 * count : count)

let database: FreshDatabase
let nextName = 0
const tally = { runs: 0, choices: 0, grants: 0 }

beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(async () => {
  console.log(`${tally.runs} runs with ${tally.grants} grants, and ${tally.choices} choices between several replies`)
  await database.drop()
})

const rejections: unknown[] = []
const onRejection = (reason: unknown) => rejections.push(reason)
beforeAll(() => void process.on('unhandledRejection', onRejection))
afterAll(() => void process.off('unhandledRejection', onRejection))

/** Two instances behind a proxy that holds replies. */
interface Pair {
  readonly replies: HeldReplies
  readonly instances: readonly [Holdfast, Holdfast]
}

async function withPair(options: Partial<HoldfastOptions>, work: (pair: Pair) => Promise<void>): Promise<void> {
  const replies = await HeldReplies.before(database.url)
  const url = replies.through(database.url)
  const namespace = `run ${++nextName}`
  const open = () => patiently(() => Holdfast.open({ url, namespace, log: false, ...options }))
  const instances = (await Promise.all([open(), open()])) as [Holdfast, Holdfast]
  try {
    await work({ replies, instances })
    await Promise.all(instances.map((instance) => instance.close()))
    await until('the closed instances have no connection', () => replies.open === 0)
    expect(rejections).toEqual([])
  } finally {
    await Promise.all(instances.map((instance) => instance.close()))
    await replies.close()
    tally.runs++
    tally.choices += replies.choices
  }
}

interface Hold {
  readonly handle: Lease | Lock
  readonly owner: Holdfast
  /** Read once, because a read of `handle.signal` detects a loss that no event has reported. */
  readonly signal: AbortSignal
  isReleased: boolean
}

/** Checks what callers believe. All holds are in one process, so each check sees all of them at the same moment. */
class Beliefs {
  readonly #holds = new Map<string, Hold[]>()
  readonly #revoked = new Set<Lease | Lock>()
  readonly #lastFences = new Map<string, number>()
  readonly violations: string[] = []
  grants = 0

  granted(name: string, handle: Lease | Lock, owner: Holdfast): void {
    this.grants++
    this.check()
    const holds = this.#holds.get(name) ?? []
    this.#holds.set(name, holds)
    // An operator who ends a session or a lease does not wait for its holder.
    if (handle.held && holds.some((other) => other.handle.held && !this.#revoked.has(other.handle))) {
      this.violations.push(`${name}: two holders at the same time`)
    }
    if (handle.fence <= (this.#lastFences.get(name) ?? 0)) {
      this.violations.push(`${name}: the fence ${handle.fence} follows ${this.#lastFences.get(name)}`)
    }
    this.#lastFences.set(name, Math.max(handle.fence, this.#lastFences.get(name) ?? 0))
    holds.push({ handle, owner, signal: handle.signal, isReleased: false })
  }

  /** The holds of this instance may overlap with later holds from now on. */
  revoke(owner: Holdfast): void {
    for (const hold of this.#all()) if (hold.owner === owner) this.#revoked.add(hold.handle)
  }

  /** The signal of a hold aborts when it is lost, and a lost hold stays lost. */
  check(): void {
    for (const { handle, signal, isReleased } of this.#all()) {
      if (isReleased) continue
      const { held } = handle
      if (held && signal.aborted) this.violations.push(`${handle.name}: a lost hold has come back`)
      if (!held && !signal.aborted) this.violations.push(`${handle.name}: the holder of a lost hold was not notified`)
    }
  }

  closed(owner: Holdfast): void {
    this.check()
    for (const hold of this.#all()) {
      if (hold.owner === owner && hold.handle.held) this.violations.push(`${hold.handle.name}: held after close`)
    }
  }

  async release(handle: Lease | Lock): Promise<void> {
    for (const hold of this.#all()) if (hold.handle === handle) hold.isReleased = true
    await handle.release()
  }

  held(): (Lease | Lock)[] {
    return [...this.#all()].map(({ handle }) => handle).filter((handle) => handle.held)
  }

  *#all() {
    for (const holds of this.#holds.values()) yield* holds
  }
}

type Action = 'acquire' | 'extend' | 'release' | 'abort' | 'terminate' | 'close'

interface Operation {
  readonly action: Action
  readonly name: number
  readonly waitMs: number
}

/** Two flows per instance, whose operations run one after the other. The numbers say how frequent an action is. */
function flowsOf(frequency: Partial<Record<Action, number>>): fc.Arbitrary<Operation[][]> {
  const actions = Object.entries(frequency).map(([action, weight]) => ({
    weight,
    arbitrary: fc.constant(action as Action),
  }))
  const operation = fc.record({ action: fc.oneof(...actions), name: fc.nat(1), waitMs: fc.constantFrom(0, 5, 30, 150) })
  return fc.array(fc.array(operation, { minLength: 3, maxLength: 8 }), { minLength: 4, maxLength: 4 })
}

const tolerated = new Set([
  'LEASE_LOST',
  'LOCK_LOST',
  'LEASE_TIMEOUT',
  'LOCK_TIMEOUT',
  'DATABASE_UNREACHABLE',
  'CLOSED',
])

/** Runs the operations of one flow. */
async function flow(
  holdfast: Holdfast,
  rooms: 'leases' | 'locks',
  steps: readonly Operation[],
  beliefs: Beliefs,
  terminate: (holdfast: Holdfast) => Promise<void>,
): Promise<void> {
  const held: (Lease | Lock)[] = []
  const { leases, locks } = holdfast
  for (const { action, name: number, waitMs } of steps) {
    const name = `${holdfast.namespace}/${number}`
    const abort = new AbortController()
    const options = { wait: waitMs, signal: abort.signal }
    const acquire = () => (rooms === 'leases' ? leases.tryAcquire(name, options) : locks.tryAcquire(name, options))
    try {
      if (action === 'acquire' || action === 'abort') {
        const acquiring = acquire()
        if (action === 'abort') setImmediate(() => abort.abort(new ClosedError('The caller')))
        const handle = await acquiring
        if (!handle) continue
        beliefs.granted(name, handle, holdfast)
        held.push(handle)
      } else if (action === 'extend') {
        for (const handle of held) if (handle.held && 'extend' in handle) await handle.extend()
      } else if (action === 'release') {
        const handle = held.shift()
        if (handle) await beliefs.release(handle)
      } else if (action === 'terminate') await terminate(holdfast)
      else {
        await holdfast.close()
        beliefs.closed(holdfast)
      }
    } catch (error) {
      if (!tolerated.has(String((error as { code?: unknown }).code))) throw error
    }
    beliefs.check()
  }
  await Promise.all(held.map((handle) => beliefs.release(handle)))
}

/** Runs flows on both instances while the scheduler orders the replies, and returns what the flows believed. */
async function runFlows(
  { replies, instances }: Pair,
  scheduler: Scheduler,
  rooms: 'leases' | 'locks',
  flows: readonly (readonly Operation[])[],
): Promise<Beliefs> {
  const beliefs = new Beliefs()
  const terminate = async (holdfast: Holdfast) => {
    beliefs.revoke(holdfast)
    await sql(
      database.url,
      'select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and application_name = $1',
      [`holdfast ${holdfast.id}`],
    )
  }
  const all = Promise.all(flows.map((steps, at) => flow(instances[at % 2]!, rooms, steps, beliefs, terminate)))
  await replies.orderUntil(scheduler, all)
  await all
  beliefs.check()
  return beliefs
}

async function assertProperty(property: fc.IRawProperty<unknown>, numRuns: number): Promise<void> {
  // A smaller example may depend on the timing of the server, so the first one is printed.
  await fc.assert(property as fc.IAsyncProperty<unknown>, { seed, numRuns: runs(numRuns), endOnFailure: true })
}

describe('in every order of the replies', { timeout: 120_000 }, () => {
  test('a lease has one holder, and after close nothing is held', async () => {
    const before = tally.grants
    await assertProperty(
      fc.asyncProperty(
        fc.scheduler(),
        flowsOf({ acquire: 6, extend: 3, release: 4, abort: 1, close: 1 }),
        fc.constantFrom('none', 'none', 'required'),
        (scheduler, flows, anchor) =>
          withPair({ anchor }, async (pair) => {
            const beliefs = await runFlows(pair, scheduler, 'leases', flows)
            tally.grants += beliefs.grants
            expect(beliefs.violations).toEqual([])
            await Promise.all(pair.instances.map((instance) => instance.close()))
            expect(beliefs.held()).toEqual([])
            const left = await sql(
              database.url,
              "select instance from holdfast.lease where token <> '' and instance = any($1)",
              [pair.instances.map(({ id }) => id)],
            )
            expect(left).toEqual([])
          }),
      ),
      8,
    )
    expect(tally.grants).toBeGreaterThan(before)
  })

  test('a lock is lost with its anchor, and after close nothing is held', async () => {
    const before = tally.grants
    await assertProperty(
      fc.asyncProperty(
        fc.scheduler(),
        flowsOf({ acquire: 8, release: 5, abort: 1, terminate: 1, close: 1 }),
        (scheduler, flows) =>
          withPair({}, async (pair) => {
            const beliefs = await runFlows(pair, scheduler, 'locks', flows)
            tally.grants += beliefs.grants
            expect(beliefs.violations).toEqual([])
            await Promise.all(pair.instances.map((instance) => instance.close()))
            expect(beliefs.held()).toEqual([])
          }),
      ),
      6,
    )
    expect(tally.grants).toBeGreaterThan(before)
  })

  test('a lease whose renewals get no reply is lost before it is granted again, and late replies do not revive it', async () => {
    await assertProperty(
      fc.asyncProperty(fc.scheduler(), fc.integer({ min: 1, max: 4 }), async (scheduler, count) => {
        const mine = await HeldReplies.before(database.url)
        const open = (url: string) =>
          patiently(() => Holdfast.open({ url, namespace: `run ${nextName}`, log: false, anchor: 'none' }))
        nextName++
        const [holder, other] = [await open(mine.through(database.url)), await open(database.url)]
        const names = Array.from({ length: count }, (_, at) => `lease ${at}`)
        const leases = await Promise.all(names.map((name) => holder.leases.acquire(name, { ttl: '1s' })))
        const aborted = leases.map(({ signal }) => signal)
        const resume = mine.silence()
        const later = await Promise.all(
          names.map(async (name, at) => {
            const lease = await other.leases.acquire(name, { ttl: '10s', wait: '20s' })
            expect(aborted[at]!.aborted).toBe(true)
            expect(lease.fence).toBeGreaterThan(leases[at]!.fence)
            return lease
          }),
        )
        const lateReplies = Promise.allSettled(leases.map((lease) => lease.extend()))
        resume()
        await mine.orderUntil(scheduler, mine.delivered())
        for (const { status } of await lateReplies) expect(status).toBe('rejected')
        expect(leases.map((lease) => lease.held)).toEqual(leases.map(() => false))
        expect(later.map((lease) => lease.held)).toEqual(later.map(() => true))
        await Promise.all([holder.close(), other.close()])
        await mine.close()
        expect(rejections).toEqual([])
      }),
      1,
    )
  })

  test('a worker that closes gives back or ends each job, and runs nothing afterwards', async () => {
    await assertProperty(
      fc.asyncProperty(
        fc.scheduler(),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 0, max: 12 }),
        fc.constantFrom(0, 20, 5_000),
        fc.constantFrom('none', 'required'),
        (scheduler, count, closesAfter, withinMs, anchor) =>
          withPair({ anchor }, async ({ replies, instances: [first, second] }) => {
            const running = new Set<number>()
            const effects = new Map<number, number>()
            let started = 0
            const reached = gate()
            const isClosed = { first: false }
            const job = defineJob('job', {
              queue: first.namespace,
              run: async (n: number, { signal }) => {
                if (isClosed.first) throw new Error('a job runs after close')
                running.add(n)
                try {
                  if (++started >= closesAfter) reached.open()
                  for (let turn = 0; turn < n % 4; turn++) await new Promise(setImmediate)
                  signal.throwIfAborted()
                  effects.set(n, (effects.get(n) ?? 0) + 1)
                } finally {
                  running.delete(n)
                }
              },
            })
            const work = async () => {
              const worker = first.jobs.work([job], { concurrency: 3 })
              const refs = await second.jobs.enqueueMany(
                job,
                Array.from({ length: count }, (_, n) => n),
              )
              if (closesAfter <= count) await reached.opened
              await worker.close({ within: withinMs })
              isClosed.first = true
              expect([...running]).toEqual([])
              return refs
            }
            const working = work()
            await replies.orderUntil(scheduler, working)
            const refs = await working
            const ids = refs.map(({ id }) => id)
            const rows = await sql<{ running: number; states: string[] }>(
              database.url,
              `select
                 (select count(*)::integer from holdfast.claim where ids && $1::bigint[]) as running,
                 array(select state from holdfast.job_find($1::bigint[])) as states`,
              [ids],
            )
            expect(rows[0]!.running).toBe(0)
            expect(rows[0]!.states).toHaveLength(count)
            expect(rows[0]!.states.filter((state) => !['done', 'ready', 'waiting'].includes(state))).toEqual([])
            // A job that is done has had its effect, and the rest is still there for another worker.
            expect(effects.size).toBeGreaterThanOrEqual(rows[0]!.states.filter((state) => state === 'done').length)
          }),
      ),
      6,
    )
  })
})
