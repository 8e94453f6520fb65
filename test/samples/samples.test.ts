// What instances write down of the names that they hold and wait for, and what is read of it.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Network } from '../../faults/network.ts'
import { Operator } from '../../src/acts/index.js'
import type { Holdfast } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { campaign, leading } from '../elections/fixture.js'
import { Child } from '../fault/children.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { insertDone } from '../setup/done-jobs.js'
import { sql, stays, until } from '../setup/facts.js'
import { anchorPid, open, openFleet } from '../setup/instances.js'

let fresh: FreshDatabase
let database: Database
let observer: Observer
beforeAll(async () => {
  fresh = await freshDatabase()
  database = openPgPool({ connectionString: fresh.url })
  observer = new Observer(database)
})
afterAll(async () => {
  await database.close()
  await fresh.drop()
})

const query = <Row extends object>(text: string, values: unknown[] = []) => sql<Row>(fresh.url, text, values)

/** How long it was held and waited for, as it is read. */
async function stripOf({ namespace }: Holdfast, search: string) {
  const { rows } = await observer.holdTimeline({ namespace, search, hours: 1 })
  expect(rows).toHaveLength(1)
  return rows[0]!
}

/** Names and why their latest terms ended. */
async function whysOf({ namespace }: Holdfast, names: readonly string[]) {
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, (await observer.terms(namespace, name))[0]?.why])),
  )
}

test('instances tell what they hold and wait for, over the ends of minutes, and why each term ended', async () => {
  const [a, b] = (await openFleet(fresh.url, 2)) as [Holdfast, Holdfast]
  const poolerOnly = await open({ url: fresh.url, namespace: a.namespace, anchor: 'none' })
  const operator = new Operator(database)
  const all = [a, b, poolerOnly]
  const write = () => Promise.all(all.map(({ samples }) => samples.write()))

  const askedAt = performance.now()
  const held = await a.locks.acquire('wanted')
  const beganAt = performance.now()
  const granted = b.locks.acquire('wanted')
  const giveUp = new AbortController()
  b.locks.acquire('wanted', { signal: giveUp.signal }).catch(() => {})
  const [released, asked, ended] = await Promise.all(
    ['released', 'asked', 'ended'].map((name) => b.locks.acquire(name)),
  )
  const pair = await a.locks.acquire(a.locks.pair(7, 42))
  const taken = await a.leases.acquire('taken', { ttl: '1m' })
  const closed = await poolerOnly.leases.acquire('closed', { ttl: '1m' })
  const [leader, led] = [campaign(a, 'asked'), campaign(poolerOnly, 'without anchor')]
  await leading([leader])
  await leading([led])
  await stays('it is held', () => held.held, 1_100)
  await write()

  expect(await observer.terms(a.namespace, 'wanted')).toMatchObject([
    {
      fence: held.fence,
      kind: 'lock',
      mode: 'exclusive',
      instance: a.id,
      osPid: process.pid,
      endedAt: null,
      why: null,
    },
  ])
  const before = await stripOf(a, 'wanted')
  expect(before.heldMs).toBeGreaterThan(900)
  // Two calls waited.
  expect(before.waitedMs).toBeGreaterThan(before.heldMs * 1.5)
  expect(before.held.filter((percent) => percent > 0).length).toBeGreaterThan(0)
  // Who merely stands for an election holds nothing up.
  const standing = campaign(b, 'asked')
  const [first] = (await observer.holdTimeline({ namespace: a.namespace })).rows
  expect(first).toMatchObject({ label: 'wanted', key: a.locks.key('wanted') })

  giveUp.abort()
  const heldMs = performance.now() - beganAt
  await held.release()
  const next = await granted
  const longestMs = performance.now() - askedAt
  await released!.release()
  await operator.requestRelease(asked!.keys[0]!)
  await until('it is asked', () => asked!.signal.aborted)
  await asked!.release()
  await pair.release()
  await operator.expireLease(taken.key)
  await until('it is taken', () => taken.signal.aborted)
  await leader.campaign.stepDown()
  await next.release()
  // Takes all locks of the instance, of which it told most before.
  await operator.endSession(await anchorPid(fresh.url, b), ended!.keys[0]!)
  await until('it is lost', () => ended!.signal.aborted)
  await until('it is back', () => b.locks.tryAcquire('again').catch(() => null))
  await standing.campaign.close()
  await write()
  await poolerOnly.close()

  const after = await stripOf(a, 'wanted')
  // By the first holder, and for a moment by the second. What is told is told in tenths of a second.
  expect(after.heldMs).toBeGreaterThan(heldMs - 200)
  expect(after.waitedMs).toBeGreaterThan(heldMs * 2 - 400)
  expect(after.waitedMs).toBeLessThan(longestMs * 2 + 400)
  expect(await whysOf(a, ['wanted', 'released', 'asked', 'taken', 'ended', 'closed', 'election/asked'])).toEqual({
    wanted: 'released',
    released: 'released',
    asked: 'release-requested',
    taken: 'revoked',
    ended: 'session-ended',
    closed: 'closed',
    'election/asked': expect.stringMatching(/closed|stepped-down|session-ended/),
  })
  const terms = await observer.terms(a.namespace, 'election/asked')
  expect(terms.at(-1)).toMatchObject({ instance: a.id, why: 'stepped-down', goneBy: null })
  expect(await observer.terms(a.namespace, 'election/without anchor')).toMatchObject([
    { kind: 'lease', instance: poolerOnly.id, why: 'closed' },
  ])
  expect(await observer.termsOf(pair.keys[0]!)).toMatchObject([{ fence: pair.fence, why: 'released' }])
  expect(closed.held).toBe(false)
})

test('of a holder that was killed, it is told what is known: when it was last seen, and who came next', async () => {
  const heir = await open({ url: fresh.url })
  const child = new Child<{ id: string }>(new URL('./holder.ts', import.meta.url), { url: fresh.url })
  const { id } = await child.first('what it has')
  const names = ['lock', 'lease', 'election/election']
  const latest = async (name: string) =>
    (await observer.terms('default', name)).find(({ instance }) => instance === id)!
  for (const name of names) expect(await latest(name)).toMatchObject({ instance: id, why: null, endedAt: null })

  child.kill()
  // Its lease is not given back before its time.
  const [lock, lease] = await Promise.all([heir.locks.acquire('lock'), heir.leases.acquire('lease')])
  const gone = await latest('election/election')
  expect(gone).toMatchObject({ why: 'gone', kind: 'lock' })
  expect(gone.endedAt!.getTime()).toBeLessThanOrEqual(gone.goneBy!.getTime())
  await stays('they are held', () => lock.held && lease.held, 1_100)
  await heir.samples.write()
  const [next, before] = await observer.terms('default', 'lock')
  expect(next).toMatchObject({ fence: lock.fence, instance: heir.id, why: null })
  expect(before).toMatchObject({ instance: id, why: 'gone', goneBy: next!.beganAt })
  expect((await latest('lease')).why).toBe('gone')

  // The sweep writes it down; nothing is told of those that live.
  await heir.samples.sweep()
  const rows = await query<{ instance: string; why: string | null; known: boolean }>(
    `select distinct instance, why, gone_by is not null and ended_at <= gone_by as known
     from holdfast.term where instance = any($1)`,
    [[id, heir.id]],
  )
  expect(rows).toEqual(
    expect.arrayContaining([
      { instance: id, why: 'gone', known: true },
      { instance: heir.id, why: null, known: false },
    ]),
  )
  expect(rows).toHaveLength(2)
  await Promise.all([lock.release(), lease.release()])
})

test('nothing is written where nobody coordinates, and nothing of what was a moment', async () => {
  const [holdfast] = (await openFleet(fresh.url, 1)) as [Holdfast]
  const all = () => query('select * from holdfast.sample, holdfast.term order by 1, 2')
  const before = await all()
  await holdfast.locks.with('a moment', () => {})
  await holdfast.samples.write()
  expect(await all()).toEqual(before)
})

/** The middle of the minute so long ago: however long a test takes, all that it tells of then belongs to one minute. */
const minute = (agoMs: number) => new Date((Math.floor((Date.now() - agoMs) / 60_000) + 0.5) * 60_000)
const ageOf = (moment: string) => `(extract(epoch from clock_timestamp() - ${moment}::timestamptz) * 1000)::float8`

test('several instances add up, and hold a name no longer than a minute in a minute', async () => {
  const key = (await query<{ key: string }>("select holdfast.lock_key('bounds', 'both')::text as key"))[0]!.key
  await query("insert into holdfast.name (key, namespace, label) values ($1, 'bounds', 'both')", [key])
  for (let times = 0; times < 2; times++) {
    await query(`select holdfast.sample_names($1, $2, $3, ${ageOf('$4')})`, [[key], [500], [32_767], minute(60_000)])
  }
  const { rows } = await observer.holdTimeline({ namespace: 'bounds', hours: 48 })
  // Of 48 hours, six minutes are a column.
  expect(rows).toMatchObject([{ heldMs: 60_000, waitedMs: 3_276_700 }])
  expect(rows[0]!.held).toHaveLength(480)
  expect(Math.max(...rows[0]!.held)).toBe(17)
})

test('an hour has room for so many names, and for others that are waited for; what is old is swept', async () => {
  const moment = minute(7_200_000)
  const add = (from: number, count: number, waited: number) =>
    query(
      `select holdfast.sample_names(array_agg(n), array_agg(1), array_agg($3::integer), ${ageOf('$4')})
       from generate_series($1::integer, $1::integer + $2::integer - 1) as n`,
      [from, count, waited, moment],
    )
  const count = async () =>
    (await query<{ n: number }>('select count(*)::integer as n from holdfast.sample where key < 10000 and key > 0'))[0]!
      .n
  await add(1, 600, 0)
  await add(401, 600, 0)
  expect(await count()).toBe(1_000)
  await add(1_001, 100, 0)
  expect(await count()).toBe(1_000)
  await add(2_001, 1_500, 1)
  expect(await count()).toBe(2_000)
  // Those that have their row go on.
  await add(1, 1, 5)
  expect(await query('select held_total, waited_total from holdfast.sample where key = 1')).toEqual([
    { held_total: 2, waited_total: 5 },
  ])

  await query("update holdfast.sample set hour = hour - interval '2 days' where key between 1 and 9999")
  await query(
    `insert into holdfast.term (key, fence, kind, mode, instance, began_at, ended_at, why)
     select 5, n, 'lock', 'exclusive', 'x', now() - interval '1 hour', now() - interval '30 minutes', 'released' from generate_series(1, 600) as n
     union all
     select 6, n, 'lock', 'exclusive', 'x', now() - interval '40 days', now() - interval '15 days', 'released' from generate_series(1, 5) as n`,
  )
  const holdfast = await open({ url: fresh.url })
  await holdfast.samples.sweep()
  expect(await count()).toBe(0)
  expect(
    await query(
      'select key::integer, count(*)::integer, min(fence)::integer from holdfast.term where key in (5, 6) group by 1',
    ),
  ).toEqual([{ key: 5, count: 500, min: 101 }])
})

test('latencies of jobs, by queue, from the history alone', async () => {
  await query("insert into holdfast.queue (key, namespace, name) values (901, 'late', 'mail'), (902, 'late', 'post')")
  // One job a second for the last ten minutes, that waited for 1 to 100 ms and ran for ten times that.
  const jobs = `
    select
      n + 1000000 as id, case when n % 10 = 0 then 902 else 901 end as queue, 'k' as kind, 'null'::json as payload,
      ended - make_interval(secs => (n % 100 + 1) * 0.011) as enqueued_at,
      ended - make_interval(secs => (n % 100 + 1) * 0.010) as claimed_at, ended as ended_at
    from (select n, clock_timestamp() - make_interval(secs => 4 * 3600 - n * 24) as ended from generate_series(1, 599) as n) as jobs`
  await query(insertDone(`${jobs} where n % 7 <> 0`))
  await query(
    `insert into holdfast.job_stopped
       (id, queue, kind, payload, enqueued_at, claimed_at, ended_at, priority, state, failed, crashes, max_crashes)
     select *, 0, 'buried', 0, 0, 3 from (${jobs} where n % 7 = 0) as stopped`,
  )
  const { queues, oneOf, columnMs, columns } = await observer.latencies({ namespace: 'late', hours: 1 })
  expect({ oneOf, columnMs, columns }).toEqual({ oneOf: 1, columnMs: 60_000, columns: 60 })
  expect(queues.map(({ queue }) => queue)).toEqual(['mail', 'post'])
  const counted = queues.flatMap(({ points }) => points).reduce((sum, { jobs }) => sum + jobs, 0)
  // Those of the last hour, and no others.
  expect(counted).toBe(149)
  for (const { waited, took, column } of queues[0]!.points) {
    expect(column).toBeLessThan(60)
    expect(took!.p50Ms).toBeGreaterThan(waited!.p50Ms)
    expect(took!.p99Ms).toBeGreaterThanOrEqual(took!.p95Ms)
  }
  const [post] = (await observer.latencies({ namespace: 'late', queue: 'post', hours: 4 })).queues
  expect(post!.points.reduce((sum, { jobs }) => sum + jobs, 0)).toBe(59)
})

test('a term that was told by a slow network began when it began', async () => {
  const network = await Network.before(fresh.url)
  onTestFinished(() => network.close())
  const holdfast = await open({ url: network.through(fresh.url) })
  const lock = await holdfast.locks.acquire('slow')
  const [{ at }] = (await query<{ at: Date }>('select clock_timestamp() as at')) as [{ at: Date }]
  await stays('it is held', () => lock.held, 1_100)
  const terms = () => observer.terms(holdfast.namespace, 'slow')
  network.delay(1_500)
  const written = holdfast.samples.write()
  await until('it is told', async () => (await terms()).length === 1)
  network.delay(0)
  await written
  const beganAt = (await terms())[0]!.beganAt
  expect(beganAt.getTime() - at.getTime()).toBeLessThan(1_000)
  await lock.release()
})
