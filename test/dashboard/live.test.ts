// Tests views that are watched: one query serves all watchers, each watcher receives changes, and without watchers no query
// runs.
import { createServer } from 'node:http'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { isSame } from '../../src/dashboard/changes.js'
import { DashboardContext } from '../../src/dashboard/dashboard-context.js'
import { Hub, type LiveMessage, type ViewRequest } from '../../src/dashboard/hub.js'
import { dashboard } from '../../src/dashboard/index.js'
import { Streams } from '../../src/dashboard/live.js'
import { handleNode } from '../../src/dashboard/node.js'
import { redactWith } from '../../src/dashboard/redact.js'
import { view } from '../../src/dashboard/view.js'
import { fromPgPool } from '../../src/postgres/index.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sqlPool, stays, until } from '../setup/facts.js'
import { listen, watch } from './fixture.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

/** Creates a hub and counts its queries. */
function makeHub(url = database.url) {
  const pool = new pg.Pool({ connectionString: url, max: 3, connectionTimeoutMillis: 5_000 })
  pool.on('error', () => {})
  const queries: string[] = []
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<{ rows: unknown[] }>
  const counting = {
    query(given: { text: string }, values: unknown[]) {
      queries.push(given.text)
      return query(given, values)
    },
    async connect() {
      queries.push('a connection')
      return pool.connect()
    },
    on: pool.on.bind(pool),
    off: pool.off.bind(pool),
    options: pool.options,
  }
  const context = new DashboardContext(
    { pool: counting as never },
    { schema: 'holdfast', redact: redactWith(undefined), traceUrl: undefined },
  )
  const hub = new Hub(context)
  onTestFinished(async () => {
    hub.close()
    await context.close()
    await pool.end()
  })
  return {
    hub,
    context,
    countOf: (mark: string) => queries.filter((text) => text.includes(mark)).length,
    all: () => queries.length,
  }
}

/** Creates a view that runs a query and returns `data()`. */
function viewRequest(id: string, data: () => unknown, intervalMs = 40): ViewRequest {
  const made = view({
    intervalMs,
    async read({ executor }) {
      await executor.query(`select 1 as "${id}"`)
      return data()
    },
  })
  return { id, view: made, params: {} }
}

test('a view is queried once for all watchers, sent when it has changed, and not queried after the last watcher has left', async () => {
  const { hub, countOf, all } = makeHub()
  let value = 1
  const begunAt = performance.now()
  // The age changes with the clock, which is no change of the view.
  const watchedView = viewRequest('shared', () => ({ value, rows: [{ ageMs: performance.now() - begunAt }] }))
  const heard = Array.from({ length: 20 }, (): LiveMessage[] => [])
  const stops = heard.map((messages) => hub.subscribe(watchedView, (one) => messages.push(one)))
  await until('every watcher has the first snapshot', () => heard.every(({ length }) => length === 1))
  const before = countOf('shared')
  await until('the view was queried five more times', () => countOf('shared') >= before + 5)
  expect(heard.map(({ length }) => length)).toEqual(heard.map(() => 1))
  value = 2
  await until('every watcher has the second snapshot', () => heard.every(({ length }) => length === 2))
  expect(heard[0]![1]).toMatchObject({ kind: 'snapshot', json: expect.stringContaining('"value":2') })
  // A later watcher receives the snapshot immediately. Another request is another view.
  const late: LiveMessage[] = []
  const other: LiveMessage[] = []
  stops.push(hub.subscribe(watchedView, (one) => late.push(one)))
  expect(late).toEqual([heard[0]![1]])
  stops.push(
    hub.subscribe(
      viewRequest('other', () => 'other'),
      (one) => other.push(one),
    ),
  )
  await until('the watcher of the other view has a snapshot', () => other.length === 1)
  expect(hub.size).toBe(2)
  for (const stop of stops) stop()
  expect(hub.size).toBe(0)
  // A query that is already running is the last one.
  let count = all()
  await until('no query has started for 100 ms', async () => {
    const last = count
    await new Promise((resolve) => setTimeout(resolve, 100))
    count = all()
    return count === last
  })
  await stays('no query runs', () => all() === count, 500)
})

test('a lost database is reported to every watcher, once for each reason, and snapshots return afterwards', async () => {
  const proxy = await SilentProxy.before(database.url)
  onTestFinished(() => proxy.close())
  const { hub, all } = makeHub(proxy.through(database.url))
  const heard: LiveMessage[][] = [[], [], []]
  for (const [at, messages] of heard.entries())
    hub.subscribe(
      viewRequest(`gone ${at}`, () => 'same'),
      (one) => messages.push(one),
    )
  await until('every watcher has a snapshot', () => heard.every(({ length }) => length === 1))
  proxy.cut()
  await until('every watcher has a failure', () => heard.every(({ length }) => length > 1))
  const before = all()
  await until('the hub has tried again twice', () => all() >= before + 2)
  // The reason changes if the next connection fails in another way. The same reason is not reported twice.
  const reasons = heard.map((messages) =>
    messages.slice(1).map((one) => (one.kind === 'failure' ? one.error : undefined)),
  )
  for (const errors of reasons) {
    expect(errors.map((error) => error?.code)).toEqual(errors.map(() => 'DATABASE_UNREACHABLE'))
    expect(new Set(errors.map((error) => error?.message)).size).toBe(errors.length)
    expect(errors).toEqual(reasons[0])
  }
  proxy.restore()
  await until('every watcher has a snapshot again', () =>
    heard.every((messages) => messages.at(-1)!.kind === 'snapshot'),
  )
  for (const messages of heard) {
    const kinds = messages.map(({ kind }) => kind)
    expect([kinds[0], ...new Set(kinds.slice(1, -1)), kinds.at(-1)]).toEqual(['snapshot', 'failure', 'snapshot'])
  }
})

test('a view whose query times out fails alone, while the database responds', async () => {
  const { hub } = makeHub()
  const slow = fromPgPool(sqlPool({ connectionString: database.url }))
  const intervalMs = 1_200
  const queriedAt: number[] = []
  const sleeping = view({
    intervalMs,
    read() {
      queriedAt.push(performance.now())
      return slow.query('select pg_sleep(0.5)', [], 100)
    },
  })
  const [fine, troubled]: [LiveMessage[], LiveMessage[]] = [[], []]
  hub.subscribe({ id: 'slow', view: sleeping, params: {} }, (one) => troubled.push(one))
  hub.subscribe(
    viewRequest('other', () => performance.now()),
    (one) => fine.push(one),
  )
  await until('the slow view was queried again', () => queriedAt.length === 2)
  expect(queriedAt[1]! - queriedAt[0]!).toBeGreaterThan(intervalMs)
  // The second failure is the same as the first, and is not reported again.
  expect(troubled).toMatchObject([{ kind: 'failure', error: { code: 'UNANSWERED' } }])
  expect(fine.length).toBeGreaterThan(5)
  expect(fine.every(({ kind }) => kind === 'snapshot')).toBe(true)
})

test('hub.read returns the latest state of a watched view: its failure, and not the snapshot before', async () => {
  const { hub } = makeHub()
  const messages: LiveMessage[] = []
  let fails = false
  const watchedView = viewRequest('once', () => {
    if (fails) throw new Error('a mistake')
    return 'fine'
  })
  hub.subscribe(watchedView, (one) => messages.push(one))
  await until('the watcher has a snapshot', () => messages.length === 1)
  expect(await hub.read(watchedView)).toMatchObject({ kind: 'snapshot' })
  fails = true
  await until('the watcher has a failure', () => messages.length === 2)
  expect(await hub.read(watchedView)).toMatchObject({ kind: 'failure', error: { code: 'INTERNAL' } })
})

test('a member of the fleet that is in use stays, however many others are needed', async () => {
  const { context } = makeHub()
  const { asMember } = context.viewContext
  const id = (namespace: string) => asMember(namespace, async (holdfast) => holdfast.id)
  await asMember('used', async ({ id: used, jobs }) => {
    const idle = await id('idle 1')
    for (const namespace of ['idle 2', 'idle 3', 'idle 4', 'idle 5']) await id(namespace)
    await jobs.find(1)
    expect(await id('used')).toBe(used)
    // The unused member whose last use is longest ago was closed.
    expect(await id('idle 1')).not.toBe(idle)
  })
})

test('a visitor whom auth accepts after the dashboard was closed gets no stream', async () => {
  const doors: (() => void)[] = []
  const auth = () => new Promise<{ name: string }>((resolve) => doors.push(() => resolve({ name: 'ada' })))
  const { fetch, close } = dashboard({ url: database.url, auth })
  const answer = fetch(new Request('http://fleet.example/api/live?view=audit'))
  await until('auth was called', () => doors.length === 1)
  await close()
  doors[0]!()
  const response = await answer
  expect([response.status, response.headers.get('content-type')]).toEqual([503, 'application/json; charset=utf-8'])
})

test('a view that fails or returns too much fails alone', async () => {
  const { hub } = makeHub()
  const fine: LiveMessage[] = []
  hub.subscribe(
    viewRequest('fine', () => performance.now()),
    (one) => fine.push(one),
  )
  const broken = await hub.read(
    viewRequest('broken', () => {
      throw new Error('a mistake')
    }),
  )
  expect(broken).toEqual({
    kind: 'failure',
    error: { code: 'INTERNAL', message: 'The dashboard failed: a mistake', hint: null },
  })
  const large = await hub.read(viewRequest('large', () => Array.from({ length: 2_000 }, () => 'x'.repeat(1_100))))
  expect(large).toMatchObject({ kind: 'failure', error: { code: 'TOO_LARGE' } })
  const long = await hub.read(viewRequest('long', () => `${'a'.repeat(9_000)}${'z'.repeat(9_000)}`))
  expect(long).toMatchObject({ json: expect.stringMatching(/^"a{4000} … \(10000 characters omitted\) … z{4000}"$/) })
  const count = fine.length
  await until('the other view continues', () => fine.length > count + 2)
  expect(fine.every(({ kind }) => kind === 'snapshot')).toBe(true)
})

test('a slow watcher receives the latest snapshot instead of all that it has missed', async () => {
  const { hub, countOf } = makeHub()
  const streams = new Streams()
  let value = 0
  const watchedView = viewRequest(
    'growing',
    () => ({ value: ++value, padding: Array.from({ length: 30 }, () => 'x'.repeat(1_000)) }),
    1,
  )
  const leaving = new AbortController()
  const { body } = streams.open([{ spec: 'growing', hub, request: watchedView }], leaving.signal)
  await until('more than 30 queries have run', () => countOf('growing') > 30)
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  const values: number[] = []
  while ((values.at(-1) ?? 0) < 31) {
    const { value: text } = await reader.read()
    const [, found] = /"value":(\d+)/.exec(text!) ?? []
    if (found) values.push(Number(found))
  }
  // Some snapshots fit into the buffers. The next one is the latest at the time of the read.
  expect(values.length).toBeLessThan(10)
  expect(values).toEqual([...values].sort((a, b) => a - b))
  leaving.abort()
  expect([streams.size, hub.size]).toEqual([0, 0])
})

test('a watcher that leaves is noticed, too many watchers are refused, and close ends all streams', async () => {
  const { hub } = makeHub()
  const streams = new Streams()
  const watchedView = viewRequest('page', () => 'one page')
  const never = () => new AbortController().signal
  const server = createServer((incoming, outgoing) => {
    void handleNode(
      async ({ signal }) => streams.open([{ spec: 'page', hub, request: watchedView }], signal),
      incoming,
      outgoing,
    )
  })
  const base = await listen(server)
  const { response, heard, leave } = await watch(base, 'page')
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  expect(response.headers.get('cache-control')).toBe('no-store, no-transform')
  await until('the page has its snapshot', () => heard.length === 1)
  leave()
  await until('the streams and the hub have noticed it', () => streams.size === 0 && hub.size === 0)
  const open = () => streams.open([{ spec: 'page', hub, request: watchedView }], never())
  const bodies = Array.from({ length: 100 }, () => open().body!)
  expect(open).toThrow('100 pages are already open')
  expect(hub.size).toBe(1)
  const many = Array.from({ length: 32 }, (_, at) => ({
    ...{ spec: `${at}`, hub },
    request: viewRequest(`many ${at}`, () => at),
  }))
  await bodies[0]!.cancel()
  expect(streams.size).toBe(99)
  expect(() => streams.open([...many, ...many], never())).toThrow('Expected 1 to 32 views, got 64')
  streams.close()
  expect([streams.size, hub.size]).toEqual([0, 0])
  const stops = Array.from({ length: 100 }, (_, at) =>
    hub.subscribe(
      viewRequest(`${at}`, () => at),
      () => {},
    ),
  )
  expect(() => streams.open(many, never())).toThrow('100 views are already open')
  expect(streams.size).toBe(0)
  for (const stop of stops) stop()
})

test('isSame finds changes, but ignores values that only follow the clock', () => {
  const at = new Date()
  const before = { name: 'etl', heldMs: 5_000, leftMs: 9_000, count: 5, rows: [{ at, forMs: 10 }], none: null }
  const later = (change: object) => isSame(before, { ...structuredClone(before), ...change }, 2_000)
  expect(later({})).toBe(true)
  expect(later({ heldMs: 7_100, leftMs: 6_950, rows: [{ at: new Date(at), forMs: 2_010 }] })).toBe(true)
  // The lease was renewed, or has another holder.
  expect(later({ leftMs: 10_000 })).toBe(false)
  expect(later({ heldMs: 12 })).toBe(false)
  expect(later({ count: 2_005 })).toBe(false)
  expect(later({ rows: [{ at: new Date(at.getTime() + 1), forMs: 10 }] })).toBe(false)
  expect(later({ rows: [] })).toBe(false)
  expect(later({ none: 0 })).toBe(false)
  expect(later({ more: 1 })).toBe(false)
  expect(isSame([1], { 0: 1 }, 0)).toBe(false)
})
