// What is watched: asked once however many watch, told when it changes, and not asked when nobody watches.
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

/** A hub that counts what it asks. */
function makeHub(url = database.url) {
  const pool = new pg.Pool({ connectionString: url, max: 3, connectionTimeoutMillis: 5_000 })
  pool.on('error', () => {})
  const asked: string[] = []
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<{ rows: unknown[] }>
  const counting = {
    query(given: { text: string }, values: unknown[]) {
      asked.push(given.text)
      return query(given, values)
    },
    async connect() {
      asked.push('a connection')
      return pool.connect()
    },
    on: pool.on.bind(pool),
    off: pool.off.bind(pool),
    options: pool.options,
  }
  const ground = new DashboardContext({ pool: counting as never }, 'holdfast', redactWith(undefined))
  const hub = new Hub(ground)
  onTestFinished(async () => {
    hub.close()
    await ground.close()
    await pool.end()
  })
  return {
    hub,
    ground,
    countOf: (mark: string) => asked.filter((text) => text.includes(mark)).length,
    all: () => asked.length,
  }
}

/** A view that says `data()`, and asks the database for it. */
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

test('asked once for all who watch, told when it has changed, and asked no more when the last has left', async () => {
  const { hub, countOf, all } = makeHub()
  let value = 1
  const begunAt = performance.now()
  // Its age goes with the clock, which is no change.
  const asked = viewRequest('shared', () => ({ value, rows: [{ ageMs: performance.now() - begunAt }] }))
  const heard = Array.from({ length: 20 }, (): LiveMessage[] => [])
  const stops = heard.map((told) => hub.subscribe(asked, (one) => told.push(one)))
  await until('everybody has the first picture', () => heard.every(({ length }) => length === 1))
  const before = countOf('shared')
  await until('it is asked again and again', () => countOf('shared') >= before + 5)
  expect(heard.map(({ length }) => length)).toEqual(heard.map(() => 1))
  value = 2
  await until('everybody has the second', () => heard.every(({ length }) => length === 2))
  expect(heard[0]![1]).toMatchObject({ kind: 'snapshot', json: expect.stringContaining('"value":2') })
  // Who comes later has it at once, and another question is another.
  const late: LiveMessage[] = []
  const other: LiveMessage[] = []
  stops.push(hub.subscribe(asked, (one) => late.push(one)))
  expect(late).toEqual([heard[0]![1]])
  stops.push(
    hub.subscribe(
      viewRequest('other', () => 'other'),
      (one) => other.push(one),
    ),
  )
  await until('the other', () => other.length === 1)
  expect(hub.size).toBe(2)
  for (const stop of stops) stop()
  expect(hub.size).toBe(0)
  // What was being asked is the last.
  let count = all()
  await until('it is quiet', async () => {
    const last = count
    await new Promise((resolve) => setTimeout(resolve, 100))
    count = all()
    return count === last
  })
  await stays('nothing is asked', () => all() === count, 500)
})

test('the database goes and comes back: all who watch are told of each reason once, one looks for it, and the picture is there again', async () => {
  const proxy = await SilentProxy.before(database.url)
  onTestFinished(() => proxy.close())
  const { hub, all } = makeHub(proxy.through(database.url))
  const heard: LiveMessage[][] = [[], [], []]
  for (const [at, told] of heard.entries())
    hub.subscribe(
      viewRequest(`gone ${at}`, () => 'same'),
      (one) => told.push(one),
    )
  await until('pictures', () => heard.every(({ length }) => length === 1))
  proxy.cut()
  await until('failure', () => heard.every(({ length }) => length > 1))
  const before = all()
  await until('it is looked for', () => all() >= before + 2)
  // The reason changes when the next connection fails otherwise than the last; the same is not told twice.
  const reasons = heard.map((told) => told.slice(1).map((one) => (one.kind === 'failure' ? one.error : undefined)))
  for (const errors of reasons) {
    expect(errors.map((error) => error?.code)).toEqual(errors.map(() => 'DATABASE_UNREACHABLE'))
    expect(new Set(errors.map((error) => error?.message)).size).toBe(errors.length)
    expect(errors).toEqual(reasons[0])
  }
  proxy.restore()
  await until('pictures again', () => heard.every((told) => told.at(-1)!.kind === 'snapshot'))
  for (const told of heard) {
    const kinds = told.map(({ kind }) => kind)
    expect([kinds[0], ...new Set(kinds.slice(1, -1)), kinds.at(-1)]).toEqual(['snapshot', 'failure', 'snapshot'])
  }
})

test('a question that gets no answer in time is in trouble alone, as long as the database tells the time', async () => {
  const { hub } = makeHub()
  const slow = fromPgPool(sqlPool({ connectionString: database.url }))
  const intervalMs = 1_200
  const askedAt: number[] = []
  const sleeping = view({
    intervalMs,
    read() {
      askedAt.push(performance.now())
      return slow.query('select pg_sleep(0.5)', [], 100)
    },
  })
  const [fine, troubled]: [LiveMessage[], LiveMessage[]] = [[], []]
  hub.subscribe({ id: 'slow', view: sleeping, params: {} }, (one) => troubled.push(one))
  hub.subscribe(
    viewRequest('beside', () => performance.now()),
    (one) => fine.push(one),
  )
  await until('it was asked again', () => askedAt.length === 2)
  expect(askedAt[1]! - askedAt[0]!).toBeGreaterThan(intervalMs)
  // Again the same trouble, which is told once.
  expect(troubled).toMatchObject([{ kind: 'failure', error: { code: 'UNANSWERED' } }])
  expect(fine.length).toBeGreaterThan(5)
  expect(fine.every(({ kind }) => kind === 'snapshot')).toBe(true)
})

test('one answer is the latest: the trouble of what somebody watches, and not the picture before it', async () => {
  const { hub } = makeHub()
  const told: LiveMessage[] = []
  let fails = false
  const asked = viewRequest('once', () => {
    if (fails) throw new Error('a mistake')
    return 'fine'
  })
  hub.subscribe(asked, (one) => told.push(one))
  await until('a picture', () => told.length === 1)
  expect(await hub.read(asked)).toMatchObject({ kind: 'snapshot' })
  fails = true
  await until('failure', () => told.length === 2)
  expect(await hub.read(asked)).toMatchObject({ kind: 'failure', error: { code: 'INTERNAL' } })
})

test('a member of the fleet that is used stays, however many others are needed', async () => {
  const { ground } = makeHub()
  const { asMember } = ground.viewContext
  const id = (namespace: string) => asMember(namespace, async (holdfast) => holdfast.id)
  await asMember('used', async ({ id: used, jobs }) => {
    const idle = await id('idle 1')
    for (const namespace of ['idle 2', 'idle 3', 'idle 4', 'idle 5']) await id(namespace)
    await jobs.pause('mail')
    expect(await id('used')).toBe(used)
    // Of those that nobody uses the one that was needed longest ago made room.
    expect(await id('idle 1')).not.toBe(idle)
  })
})

test('who was let in after it was closed gets no stream', async () => {
  const doors: (() => void)[] = []
  const auth = () => new Promise<{ name: string }>((resolve) => doors.push(() => resolve({ name: 'ada' })))
  const { fetch, close } = dashboard({ url: database.url, auth })
  const answer = fetch(new Request('http://fleet.example/api/live?view=audit'))
  await until('somebody is at the door', () => doors.length === 1)
  await close()
  doors[0]!()
  const response = await answer
  expect([response.status, response.headers.get('content-type')]).toEqual([503, 'application/json; charset=utf-8'])
})

test('a view that fails, or says too much, is in trouble alone', async () => {
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
  await until('the other goes on', () => fine.length > count + 2)
  expect(fine.every(({ kind }) => kind === 'snapshot')).toBe(true)
})

test('a slow watcher is not queued for: what it has not taken is replaced by what is newer', async () => {
  const { hub, countOf } = makeHub()
  const streams = new Streams(hub)
  let value = 0
  const asked = viewRequest(
    'growing',
    () => ({ value: ++value, padding: Array.from({ length: 30 }, () => 'x'.repeat(1_000)) }),
    1,
  )
  const leaving = new AbortController()
  const { body } = streams.open([{ spec: 'growing', request: asked }], leaving.signal)
  await until('much has been asked', () => countOf('growing') > 30)
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  const values: number[] = []
  while ((values.at(-1) ?? 0) < 31) {
    const { value: text } = await reader.read()
    const [, found] = /"value":(\d+)/.exec(text!) ?? []
    if (found) values.push(Number(found))
  }
  // Some fit into what was waiting, then one that was new when it was taken.
  expect(values.length).toBeLessThan(10)
  expect(values).toEqual([...values].sort((a, b) => a - b))
  leaving.abort()
  expect([streams.size, hub.size]).toEqual([0, 0])
})

test('who leaves is noticed, too many are refused, and closing ends them all', async () => {
  const { hub } = makeHub()
  const streams = new Streams(hub)
  const asked = viewRequest('page', () => 'one page')
  const never = () => new AbortController().signal
  const server = createServer((incoming, outgoing) => {
    void handleNode(async ({ signal }) => streams.open([{ spec: 'page', request: asked }], signal), incoming, outgoing)
  })
  const base = await listen(server)
  const { response, heard, leave } = await watch(base, 'page')
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  expect(response.headers.get('cache-control')).toBe('no-store, no-transform')
  await until('the page', () => heard.length === 1)
  leave()
  await until('it is noticed', () => streams.size === 0 && hub.size === 0)
  const open = () => streams.open([{ spec: 'page', request: asked }], never())
  const bodies = Array.from({ length: 100 }, () => open().body!)
  expect(open).toThrow('100 pages are already open')
  expect(hub.size).toBe(1)
  const many = Array.from({ length: 16 }, (_, at) => ({ spec: `${at}`, request: viewRequest(`many ${at}`, () => at) }))
  await bodies[0]!.cancel()
  expect(streams.size).toBe(99)
  expect(() => streams.open([...many, ...many], never())).toThrow('Expected 1 to 16 views, got 32')
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

test('what is a change, and what only goes with the clock', () => {
  const at = new Date()
  const before = { name: 'etl', heldMs: 5_000, leftMs: 9_000, count: 5, rows: [{ at, forMs: 10 }], none: null }
  const later = (change: object) => isSame(before, { ...structuredClone(before), ...change }, 2_000)
  expect(later({})).toBe(true)
  expect(later({ heldMs: 7_100, leftMs: 6_950, rows: [{ at: new Date(at), forMs: 2_010 }] })).toBe(true)
  // It was renewed, or is another's.
  expect(later({ leftMs: 10_000 })).toBe(false)
  expect(later({ heldMs: 12 })).toBe(false)
  expect(later({ count: 2_005 })).toBe(false)
  expect(later({ rows: [{ at: new Date(at.getTime() + 1), forMs: 10 }] })).toBe(false)
  expect(later({ rows: [] })).toBe(false)
  expect(later({ none: 0 })).toBe(false)
  expect(later({ more: 1 })).toBe(false)
  expect(isSame([1], { 0: 1 }, 0)).toBe(false)
})
