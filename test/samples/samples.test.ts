// Samples: the holds and waits that instances record, and the queries that read them.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Network } from '../../faults/network.ts'
import { Operator } from '../../src/acts/index.js'
import type { Holdfast } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { campaign, leading } from '../elections/fixture.js'
import { Child } from '../fault/children.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
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

/** Returns the hold timeline of the name. */
async function timelineOf({ namespace }: Holdfast, search: string) {
  const { rows } = await observer.holdTimeline({ namespace, search, hours: 1 })
  expect(rows).toHaveLength(1)
  return rows[0]!
}

/** Returns for each name why its latest term ended. */
async function endReasonsOf({ namespace }: Holdfast, names: readonly string[]) {
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, (await observer.terms(namespace, name))[0]?.why])),
  )
}

test('samples contain the held and waited times of names across minutes, and the reason for the end of each term', async () => {
  const [a, b] = (await openFleet(fresh.url, 2)) as [Holdfast, Holdfast]
  const poolerOnly = await open({ url: fresh.url, namespace: a.namespace, anchor: 'none' })
  const operator = new Operator(database)
  const all = [a, b, poolerOnly]
  const write = () => Promise.all(all.map(({ samples }) => samples.write()))

  const askedAt = performance.now()
  const held = await a.locks.acquire('wanted')
  const grantedAt = performance.now()
  const granted = b.locks.acquire('wanted')
  const giveUp = new AbortController()
  b.locks.acquire('wanted', { signal: giveUp.signal }).catch(() => {})
  const [released, requested, ended] = await Promise.all(
    ['released', 'requested', 'ended'].map((name) => b.locks.acquire(name)),
  )
  // The requests of the waiting calls were sent before these requests.
  const waitingAt = performance.now()
  const pair = await a.locks.acquire(a.locks.pair(7, 42))
  const revoked = await a.leases.acquire('revoked', { ttl: '1m' })
  const closed = await poolerOnly.leases.acquire('closed', { ttl: '1m' })
  const [leader, led] = [campaign(a, 'requested'), campaign(poolerOnly, 'without anchor')]
  await leading([leader])
  await leading([led])
  await stays('the lock is held', () => held.held, 1_100)
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
  const before = await timelineOf(a, 'wanted')
  expect(before.heldMs).toBeGreaterThan(900)
  // Two calls waited.
  expect(before.waitedMs).toBeGreaterThan(before.heldMs * 1.5)
  expect(before.held.filter((percent) => percent > 0).length).toBeGreaterThan(0)
  // A candidate in an election does not count as a waiter.
  const candidate = campaign(b, 'requested')
  const [first] = (await observer.holdTimeline({ namespace: a.namespace })).rows
  expect(first).toMatchObject({ label: 'wanted', key: a.locks.key('wanted') })

  giveUp.abort()
  const [heldMs, waitedMs] = [performance.now() - grantedAt, performance.now() - waitingAt]
  await held.release()
  const next = await granted
  const longestMs = performance.now() - askedAt
  await released!.release()
  await operator.requestRelease(requested!.keys[0]!, [b.id])
  await until('the holder has received the request', () => requested!.signal.aborted)
  await requested!.release()
  await pair.release()
  await operator.expireLease(revoked.key)
  await until('the lease is revoked', () => revoked.signal.aborted)
  await leader.campaign.stepDown()
  await next.release()
  // Ends all locks of the instance. The samples of most of them have already been written.
  await operator.endSession(await anchorPid(fresh.url, b), ended!.keys[0]!)
  await until('the lock is lost', () => ended!.signal.aborted)
  await until('the instance has reconnected', () => b.locks.tryAcquire('again').catch(() => null))
  await candidate.campaign.close()
  await write()
  await poolerOnly.close()

  const after = await timelineOf(a, 'wanted')
  // Held by the first holder, and briefly by the second. Samples count in tenths of a second.
  expect(after.heldMs).toBeGreaterThan(heldMs - 200)
  expect(after.waitedMs).toBeGreaterThan(waitedMs * 2 - 400)
  expect(after.waitedMs).toBeLessThan(longestMs * 2 + 400)
  expect(
    await endReasonsOf(a, ['wanted', 'released', 'requested', 'revoked', 'ended', 'closed', 'election/requested']),
  ).toEqual({
    wanted: 'released',
    released: 'released',
    requested: 'release-requested',
    revoked: 'revoked',
    ended: 'session-ended',
    closed: 'closed',
    'election/requested': expect.stringMatching(/closed|stepped-down|session-ended/),
  })
  const terms = await observer.terms(a.namespace, 'election/requested')
  expect(terms.at(-1)).toMatchObject({ instance: a.id, why: 'stepped-down', goneBy: null })
  expect(await observer.terms(a.namespace, 'election/without anchor')).toMatchObject([
    { kind: 'lease', instance: poolerOnly.id, why: 'closed' },
  ])
  expect(await observer.termsOf(pair.keys[0]!)).toMatchObject([{ fence: pair.fence, why: 'released' }])
  expect(closed.held).toBe(false)
})

test('the term of a killed holder shows when the holder was last seen and when the next term began', async () => {
  const successor = await open({ url: fresh.url })
  const child = new Child<{ id: string }>(new URL('./holder.ts', import.meta.url), { url: fresh.url })
  const { id } = await child.first('the id of its instance')
  const names = ['lock', 'lease', 'election/election']
  const latest = async (name: string) =>
    (await observer.terms('default', name)).find(({ instance }) => instance === id)!
  for (const name of names) expect(await latest(name)).toMatchObject({ instance: id, why: null, endedAt: null })

  child.kill()
  // The lease of the killed process stays until it expires.
  const [lock, lease] = await Promise.all([successor.locks.acquire('lock'), successor.leases.acquire('lease')])
  const gone = await latest('election/election')
  expect(gone).toMatchObject({ why: 'gone', kind: 'lock' })
  expect(gone.endedAt!.getTime()).toBeLessThanOrEqual(gone.goneBy!.getTime())
  await stays('the lock and the lease are held', () => lock.held && lease.held, 1_100)
  await successor.samples.write()
  const [next, before] = await observer.terms('default', 'lock')
  expect(next).toMatchObject({ fence: lock.fence, instance: successor.id, why: null })
  expect(before).toMatchObject({ instance: id, why: 'gone', goneBy: next!.beganAt })
  expect((await latest('lease')).why).toBe('gone')

  // The sweep records the ends of dead holders, and not those of live holders.
  await successor.samples.sweep()
  const rows = await query<{ instance: string; why: string | null; known: boolean }>(
    `select distinct instance, why, gone_by is not null and ended_at <= gone_by as known
     from holdfast.term where instance = any($1)`,
    [[id, successor.id]],
  )
  expect(rows).toEqual(
    expect.arrayContaining([
      { instance: id, why: 'gone', known: true },
      { instance: successor.id, why: null, known: false },
    ]),
  )
  expect(rows).toHaveLength(2)
  await Promise.all([lock.release(), lease.release()])
})

test('an idle instance writes no samples, and a very short hold leaves no sample', async () => {
  const [holdfast] = (await openFleet(fresh.url, 1)) as [Holdfast]
  const all = () => query('select * from holdfast.sample, holdfast.term order by 1, 2')
  const before = await all()
  await holdfast.locks.with('a moment', () => {})
  await holdfast.samples.write()
  expect(await all()).toEqual(before)
})

/** Returns the middle of a minute `agoMs` ago, so that all samples of a test belong to one minute. */
const minute = (agoMs: number) => new Date((Math.floor((Date.now() - agoMs) / 60_000) + 0.5) * 60_000)
const ageOf = (moment: string) => `(extract(epoch from clock_timestamp() - ${moment}::timestamptz) * 1000)::float8`

test('samples of several instances are added up, with at most one minute of held time per minute', async () => {
  const key = (await query<{ key: string }>("select holdfast.lock_key('bounds', 'both')::text as key"))[0]!.key
  await query("insert into holdfast.name (key, namespace, label) values ($1, 'bounds', 'both')", [key])
  for (let times = 0; times < 2; times++) {
    await query(`select holdfast.sample_names($1, $2, $3, ${ageOf('$4')})`, [[key], [500], [32_767], minute(60_000)])
  }
  const { rows } = await observer.holdTimeline({ namespace: 'bounds', hours: 48 })
  // With 48 hours, a column covers six minutes.
  expect(rows).toMatchObject([{ heldMs: 60_000, waitedMs: 3_276_700 }])
  expect(rows[0]!.held).toHaveLength(480)
  expect(Math.max(...rows[0]!.held)).toBe(17)
})

test('samples of an hour are limited to 1,000 names and 1,000 more with waiters, and old rows are swept', async () => {
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
  // Names that already have a row still count.
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

test('a term that is recorded over a slow network has the correct start time', async () => {
  const network = await Network.before(fresh.url)
  onTestFinished(() => network.close())
  const holdfast = await open({ url: network.through(fresh.url) })
  const lock = await holdfast.locks.acquire('slow')
  const [{ at }] = (await query<{ at: Date }>('select clock_timestamp() as at')) as [{ at: Date }]
  await stays('the lock is held', () => lock.held, 1_100)
  const terms = () => observer.terms(holdfast.namespace, 'slow')
  network.delay(1_500)
  const written = holdfast.samples.write()
  await until('the term is recorded', async () => (await terms()).length === 1)
  network.delay(0)
  await written
  const beganAt = (await terms())[0]!.beganAt
  expect(beganAt.getTime() - at.getTime()).toBeLessThan(1_000)
  await lock.release()
})
