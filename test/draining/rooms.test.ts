// Tests draining: one of two instances gives up its work, and the other instance takes it over without a loss.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Operator } from '../../src/acts/index.js'
import { DrainingError, defineJob, type Holdfast, type HoldfastOptions } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { campaign, leading } from '../elections/fixture.js'
import { gate, work } from '../jobs/fixture.js'
import { add, runsOf, untilMember, untilRuns } from '../schedules/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, stays, until, within } from '../setup/facts.js'
import { openFleet } from '../setup/instances.js'

let fresh: FreshDatabase
let database: Database
beforeAll(async () => {
  fresh = await freshDatabase()
  database = openPgPool({ connectionString: fresh.url })
})
afterAll(async () => {
  await database.close()
  await fresh.drop()
})

async function pair(options?: Partial<HoldfastOptions>): Promise<[Holdfast, Holdfast]> {
  return (await openFleet(fresh.url, 2, options)) as [Holdfast, Holdfast]
}

async function stateOf({ id }: Holdfast): Promise<string | undefined> {
  return (await new Observer(database).fleet.find(id))?.state
}

const aborted = (signal: AbortSignal) =>
  within(
    10_000,
    'the abort',
    new Promise((resolve) => {
      if (signal.aborted) resolve(signal.reason)
      signal.addEventListener('abort', () => resolve(signal.reason))
    }),
  )

describe.each([{ anchor: 'required' }, { anchor: 'none' }] as const)('drain with anchor: $anchor', ({ anchor }) => {
  const options = { anchor, expiry: 2_000 }

  test('drain waits for running work, and later work goes to the other instance', async () => {
    const [leaving, staying] = await pair(options)
    const ends = gate()
    const ran: string[] = []
    const job = defineJob('slow', {
      run: async (at: string, context) => {
        if (at === 'before') await ends.opened
        ran.push(at)
        return context.id
      },
    })
    const worker = work(leaving, [job], { concurrency: 2 })
    const running = await leaving.jobs.enqueue(job, 'before')
    await until('the job runs', () => worker.running === 1)

    const started = gate()
    const at = (holdfast: Holdfast) => async () => {
      if (holdfast === leaving) {
        started.open()
        await ends.opened
      }
    }
    add(leaving, 'ticking', { every: '1s', overlap: 'skip' }, at(leaving))
    await within(10_000, 'the first tick', started.opened)
    add(staying, 'ticking', { every: '1s', overlap: 'skip' }, at(staying))
    await untilMember(staying, 'ticking')

    const first = campaign(leaving, 'leader')
    await leading([first])
    const second = campaign(staying, 'leader')
    const feeds = ['a', 'b', 'c', 'd']
    const hold = (_: string, { signal }: { signal: AbortSignal }) => aborted(signal)
    const mine = leaving.shares.assign('feeds', feeds, hold)
    const theirs = staying.shares.assign('feeds', feeds, hold)
    await until('both instances own two resources', () => mine.owned.length === 2 && theirs.owned.length === 2)

    const draining = leaving.drain({ within: '20s' })
    expect(leaving.draining.aborted).toBe(true)
    expect(leaving.draining.reason).toBeInstanceOf(DrainingError)
    expect(leaving.draining.reason).toMatchObject({ part: 'instance', retryable: false })
    await leading([second])
    await until('the other instance owns all resources', () => theirs.owned.length === 4)
    const next = await leaving.jobs.enqueue(job, 'after')
    await until('the instance is draining in the database', async () => (await stateOf(leaving)) === 'draining')
    await stays('the drain waits for the running work', async () => (await stateOf(leaving)) === 'draining', 200)
    expect(ran).toEqual([])
    expect((await leaving.jobs.find(next.id))!.state).toBe('ready')
    for (const start of [
      () => leaving.jobs.work([job]),
      () => leaving.schedules.add('another', { every: '1h' }, () => {}),
      () => leaving.elections.campaign('another', () => {}),
      () => leaving.shares.assign('another', [], () => {}),
    ]) {
      expect(start).toThrow(DrainingError)
    }

    ends.open()
    expect(await within(10_000, 'the drain', draining)).toBe(true)
    await leaving.drained
    expect(await stateOf(leaving)).toBe('drained')
    expect(await leaving.jobs.find(running.id)).toMatchObject({ state: 'done', failed: 0, crashes: 0 })
    expect(mine.owned).toEqual([])
    // A drained instance can still be used.
    await leaving.leases.with('still', () => {})
    work(staying, [job])
    await until('the other instance has run the next job', () => ran.includes('after'))
    await untilRuns(staying, 'ticking', ['done'], 3)
    const runs = await runsOf(staying, 'ticking')
    expect(runs[0]).toMatchObject({ state: 'done', instance: leaving.id, attempt: 1 })
    expect(runs.filter(({ instance }) => instance === leaving.id)).toHaveLength(1)
    expect(runs.every(({ attempt }) => attempt === 1)).toBe(true)
  })

  test('drain aborts work that exceeds its deadline, returns jobs to their queues and requests the release of holds', async () => {
    const [leaving, staying] = await pair(options)
    const ends = gate()
    const parts: unknown[] = []
    const untilAborted = async ({ signal }: { signal: AbortSignal }) => {
      parts.push(((await aborted(signal)) as DrainingError).part)
      throw signal.reason
    }
    const job = defineJob('endless', {
      run: async (_: null, context) => (context.attempt === 1 && ran === leaving ? untilAborted(context) : 'elsewhere'),
    })
    let ran: Holdfast = leaving
    const worker = work(leaving, [job])
    const { id } = await leaving.jobs.enqueue(job, null)
    await until('the job runs', () => worker.running === 1)
    const lease = await leaving.leases.acquire('lease')
    const permit = await leaving.limits.acquire('permit', { max: 1 })
    const lock = anchor === 'required' ? await leaving.locks.acquire('lock') : undefined
    const round = leaving.shares
      .each('round', ['a', 'b'], async (_, owned) => untilAborted(owned))
      .catch((error) => error)
    const delivery = leaving.once.run('key', () => ends.opened)
    await until(
      'the run of once is in flight',
      async () => (await sql(fresh.url, "select from holdfast.delivery where state = 'in-flight'")).length > 0,
    )

    expect(await leaving.drain({ within: 100 })).toBe(false)
    const handles = [lease, permit, ...(lock ? [lock] : [])]
    for (const { signal } of handles) expect(await aborted(signal)).toBeInstanceOf(DrainingError)
    // The holders receive the request and still hold.
    expect(handles.map(({ held }) => held)).toEqual(handles.map(() => true))
    expect(await stateOf(leaving)).toBe('draining')
    await Promise.all(handles.map((handle) => handle.release()))
    expect(await round).toBeInstanceOf(Error)
    await until('the job and the round are aborted', () => parts.length === 2)
    expect(parts.sort()).toEqual(['instance', 'worker'])
    ran = staying
    work(staying, [job])
    await until(
      'the job has run on the other instance',
      async () => (await staying.jobs.find(id))?.result === 'elsewhere',
    )
    expect(await staying.jobs.find(id)).toMatchObject({ failed: 0, crashes: 0 })
    expect(await stateOf(leaving)).toBe('draining')
    ends.open()
    expect(await delivery).toMatchObject({ status: 'done' })
    await within(10_000, 'the drain', leaving.drained)
    expect(await stateOf(leaving)).toBe('drained')
  })

  test('an operator can request a drain, also while the instance has no session', async () => {
    const [target, other] = await pair(options)
    const operator = new Operator(database)
    // Without an anchor, an instance becomes present at its first call.
    const permits = await Promise.all([target, other].map(({ limits }) => limits.acquire('used', { max: 2 })))
    await Promise.all(permits.map((permit) => permit.release()))
    expect(await operator.requestDrain(target.id, 5_000)).toBe(true)
    expect(await operator.requestDrain(target.id, 5_000)).toBe(false)
    expect(await operator.requestDrain('unknown', undefined)).toBe(false)
    await within(10_000, 'the drain', target.drained)
    expect(await stateOf(target)).toBe('drained')
    if (anchor === 'none') return
    // The instance misses the notification, because its session ends.
    await sql(fresh.url, `update holdfast.instance set state = 'drain-requested' where id = $1`, [other.id])
    expect(other.draining.aborted).toBe(false)
    await sql(fresh.url, 'select pg_terminate_backend(backend_pid) from holdfast.instance where id = any($1)', [
      [target.id, other.id],
    ])
    await within(10_000, 'the drain', other.drained)
    // A drained instance that reconnects is still drained.
    await until(
      'both instances are drained in the database',
      async () => (await stateOf(target)) === 'drained' && (await stateOf(other)) === 'drained',
    )
  })
})

test('drain returns false at its deadline, continues, and ends with the last running function', {
  timeout: 20_000,
}, async () => {
  const [leaving] = await pair()
  const ends = gate()
  campaign(leaving, 'slow', { work: () => ends.opened })
  await until('the campaign leads', async () => (await leaving.elections.leader('slow')) !== null)
  const [first, again] = await Promise.all([leaving.drain({ within: 1 }), leaving.drain({ within: 0 })])
  expect([first, again]).toEqual([false, false])
  await until('the instance is draining in the database', async () => (await stateOf(leaving)) === 'draining')
  ends.open()
  await within(5_000, 'the drain', leaving.drained)
  expect(await leaving.drain()).toBe(true)
})
