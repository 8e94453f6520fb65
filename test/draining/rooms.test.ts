// Draining: one of two instances gives up its part, and the other takes it over, without a loss.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Operator } from '../../src/acts/index.js'
import { defineJob, type Holdfast, type HoldfastOptions, InstanceDrainingError } from '../../src/index.js'
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
    'an abort',
    new Promise((resolve) => {
      if (signal.aborted) resolve(signal.reason)
      signal.addEventListener('abort', () => resolve(signal.reason))
    }),
  )

describe.each([{ anchor: 'required' }, { anchor: 'none' }] as const)('with the anchor $anchor', ({ anchor }) => {
  const options = { anchor, expiry: 2_000 }

  test('what runs comes to its end here, and what is next goes to the other instance', async () => {
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

    const began = gate()
    const at = (holdfast: Holdfast) => async () => {
      if (holdfast === leaving) {
        began.open()
        await ends.opened
      }
    }
    add(leaving, 'ticking', { every: '1s', overlap: 'skip' }, at(leaving))
    await within(10_000, 'a tick', began.opened)
    add(staying, 'ticking', { every: '1s', overlap: 'skip' }, at(staying))
    await untilMember(staying, 'ticking')

    const first = campaign(leaving, 'leader')
    await leading([first])
    const second = campaign(staying, 'leader')
    const feeds = ['a', 'b', 'c', 'd']
    const hold = (_: string, { signal }: { signal: AbortSignal }) => aborted(signal)
    const mine = leaving.shares.assign('feeds', feeds, hold)
    const theirs = staying.shares.assign('feeds', feeds, hold)
    await until('both own some', () => mine.owned.length === 2 && theirs.owned.length === 2)

    const draining = leaving.drain({ within: '20s' })
    expect(leaving.draining.aborted).toBe(true)
    expect(leaving.draining.reason).toBeInstanceOf(InstanceDrainingError)
    await leading([second])
    await until('the other owns all', () => theirs.owned.length === 4)
    const next = await leaving.jobs.enqueue(job, 'after')
    await until('its row says so', async () => (await stateOf(leaving)) === 'draining')
    await stays('the work that runs is waited for', async () => (await stateOf(leaving)) === 'draining', 200)
    expect(ran).toEqual([])
    expect((await leaving.jobs.find(next.id))!.state).toBe('ready')
    for (const begin of [
      () => leaving.jobs.work([job]),
      () => leaving.schedules.add('another', { every: '1h' }, () => {}),
      () => leaving.elections.campaign('another', () => {}),
      () => leaving.shares.assign('another', [], () => {}),
    ]) {
      expect(begin).toThrow(InstanceDrainingError)
    }

    ends.open()
    expect(await within(10_000, 'draining', draining)).toBe(true)
    await leaving.drained
    expect(await stateOf(leaving)).toBe('drained')
    expect(await leaving.jobs.find(running.id)).toMatchObject({ state: 'done', failed: 0, crashes: 0 })
    expect(mine.owned).toEqual([])
    // It lives, and can be used.
    await leaving.leases.with('still', () => {})
    work(staying, [job])
    await until('the other ran the next', () => ran.includes('after'))
    await untilRuns(staying, 'ticking', ['done'], 3)
    const runs = await runsOf(staying, 'ticking')
    expect(runs[0]).toMatchObject({ state: 'done', instance: leaving.id, attempt: 1 })
    expect(runs.filter(({ instance }) => instance === leaving.id)).toHaveLength(1)
    expect(runs.every(({ attempt }) => attempt === 1)).toBe(true)
  })

  test('what takes longer is told to stop: work is given back, what is held is asked for', async () => {
    const [leaving, staying] = await pair(options)
    const ends = gate()
    const stopped: unknown[] = []
    const untilTold = async ({ signal }: { signal: AbortSignal }) => {
      stopped.push(((await aborted(signal)) as { code: string }).code)
      throw signal.reason
    }
    const job = defineJob('endless', {
      run: async (_: null, context) => (context.attempt === 1 && ran === leaving ? untilTold(context) : 'elsewhere'),
    })
    let ran: Holdfast = leaving
    const worker = work(leaving, [job])
    const { id } = await leaving.jobs.enqueue(job, null)
    await until('the job runs', () => worker.running === 1)
    const lease = await leaving.leases.acquire('lease')
    const permit = await leaving.limits.acquire('permit', { max: 1 })
    const lock = anchor === 'required' ? await leaving.locks.acquire('lock') : undefined
    const round = leaving.shares.each('round', ['a', 'b'], async (_, owned) => untilTold(owned)).catch((error) => error)
    const delivery = leaving.once.run('key', () => ends.opened)
    await until(
      'the round has begun',
      async () => (await sql(fresh.url, "select from holdfast.delivery where state = 'in-flight'")).length > 0,
    )

    expect(await leaving.drain({ within: 100 })).toBe(false)
    const handles = [lease, permit, ...(lock ? [lock] : [])]
    for (const { signal } of handles) expect(await aborted(signal)).toBeInstanceOf(InstanceDrainingError)
    // They are asked, and still hold.
    expect(handles.map(({ held }) => held)).toEqual(handles.map(() => true))
    expect(await stateOf(leaving)).toBe('draining')
    await Promise.all(handles.map((handle) => handle.release()))
    expect(await round).toBeInstanceOf(Error)
    expect(stopped.sort()).toEqual(['DRAINING', 'INSTANCE_DRAINING'])
    ran = staying
    work(staying, [job])
    await until('the job ran elsewhere', async () => (await staying.jobs.find(id))?.result === 'elsewhere')
    expect(await staying.jobs.find(id)).toMatchObject({ failed: 0, crashes: 0 })
    expect(await stateOf(leaving)).toBe('draining')
    ends.open()
    expect(await delivery).toMatchObject({ status: 'done' })
    await within(10_000, 'draining', leaving.drained)
    expect(await stateOf(leaving)).toBe('drained')
  })

  test('asked from outside, also between two lives', async () => {
    const [asked, other] = await pair(options)
    const operator = new Operator(database)
    // Presence without an anchor begins with the first use.
    const permits = await Promise.all([asked, other].map(({ limits }) => limits.acquire('used', { max: 2 })))
    await Promise.all(permits.map((permit) => permit.release()))
    expect(await operator.requestDrain(asked.id, 5_000)).toBe(true)
    expect(await operator.requestDrain(asked.id, 5_000)).toBe(false)
    expect(await operator.requestDrain('nobody', undefined)).toBe(false)
    await within(10_000, 'draining', asked.drained)
    expect(await stateOf(asked)).toBe('drained')
    if (anchor === 'none') return
    // A notification that nobody hears: the session ends with it.
    await sql(fresh.url, `update holdfast.instance set state = 'drain-requested' where id = $1`, [other.id])
    expect(other.draining.aborted).toBe(false)
    await sql(fresh.url, 'select pg_terminate_backend(backend_pid) from holdfast.instance where id = any($1)', [
      [asked.id, other.id],
    ])
    await within(10_000, 'draining', other.drained)
    // A later life of a drained instance says so, too.
    await until('both say so', async () => (await stateOf(asked)) === 'drained' && (await stateOf(other)) === 'drained')
  })
})

test('draining that takes longer answers false, goes on, and ends with the last of it', {
  timeout: 20_000,
}, async () => {
  const [leaving] = await pair()
  const ends = gate()
  campaign(leaving, 'deaf', { work: () => ends.opened })
  await until('it leads', async () => (await leaving.elections.leader('deaf')) !== null)
  const [first, again] = await Promise.all([leaving.drain({ within: 1 }), leaving.drain({ within: 0 })])
  expect([first, again]).toEqual([false, false])
  await until('the others can see it', async () => (await stateOf(leaving)) === 'draining')
  ends.open()
  await within(5_000, 'draining', leaving.drained)
  expect(await leaving.drain()).toBe(true)
})
