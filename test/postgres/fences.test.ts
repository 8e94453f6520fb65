// Later fences are larger: across reconnects, changed timelines and systems. Crashes and promotions: see restart.test.ts
// and standby.test.ts.
import { expect, test } from 'vitest'
import { sql, sqlSession, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'

const timeline = 4_294_967_296

async function nextFence(url: string): Promise<number> {
  const [row] = await sql<{ fence: string }>(url, "select nextval('holdfast.fence') as fence")
  return Number(row!.fence)
}

const advance = (url: string) => sql(url, 'select holdfast.advance_fence()')
const record = (url: string, change: string) => sql(url, `update holdfast.fencing set ${change}`)

test('grow with every grant, of any name and by anybody', async () => {
  const url = await databaseUrl()
  const [a, b] = [await open({ url }), await open({ url })]
  const fences: number[] = []
  for (let i = 0; i < 5; i++) {
    for (const { locks } of [a, b]) await locks.with(`name ${i % 2}`, ({ fence }) => fences.push(fence))
  }
  expect(fences).toEqual([...fences].sort((one, other) => one - other))
  expect(new Set(fences).size).toBe(fences.length)
})

test('leap ahead at every opening and reconnection, by more than a crash can forget', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  const before = await instance.locks.with('name', ({ fence }) => fence)
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, instance)])
  await until('it lives again', async () => {
    const [row] = await sql<{ lives: number }>(url, 'select lives from holdfast.instance')
    return row!.lives === 2
  })
  const reconnected = await instance.locks.with('name', { wait: '10s' }, ({ fence }) => fence)
  expect(reconnected).toBeGreaterThan(before + 1_000_000)
  const opened = await (await open({ url })).locks.with('name', ({ fence }) => fence)
  expect(opened).toBeGreaterThan(reconnected + 1_000_000)
})

test('stay numbers that JavaScript can count, for a very long time', async () => {
  const url = await databaseUrl()
  await open({ url })
  const openings = Number.MAX_SAFE_INTEGER / ((await nextFence(url)) + 1)
  expect(openings).toBeGreaterThan(1_000_000)
})

test('leap far ahead for each timeline that has passed, and once only', async () => {
  const url = await databaseUrl()
  await advance(url)
  await record(url, 'timeline = timeline - 2')
  const before = await nextFence(url)
  // The recorded timeline of a first cluster is 1, so what is simulated lies before it.
  await advance(url)
  const after = await nextFence(url)
  const [recorded] = await sql<{ timeline: number }>(url, 'select timeline from holdfast.fencing')
  expect(after - before).toBeGreaterThan(2 * timeline)
  expect(recorded!.timeline).toBe(1)
  await advance(url)
  expect((await nextFence(url)) - after).toBeLessThan(timeline)
})

test('leap far ahead on another system, such as a restored or upgraded one', async () => {
  const url = await databaseUrl()
  await advance(url)
  await record(url, 'system_identifier = system_identifier + 1')
  const before = await nextFence(url)
  await advance(url)
  expect((await nextFence(url)) - before).toBeGreaterThanOrEqual(timeline)
})

test('never go back, however many open at once', async () => {
  const url = await databaseUrl()
  const drawn: number[] = []
  let opening = true
  const drawing = (async () => {
    while (opening) drawn.push(await nextFence(url))
  })()
  await Promise.all(Array.from({ length: 10 }, () => open({ url })))
  opening = false
  await drawing
  expect(drawn).toEqual([...drawn].sort((one, other) => one - other))
  expect(await nextFence(url)).toBeGreaterThan(10 * 1_000_000)
})

test.each([
  ['off', 'on'],
  ['remote_apply', 'remote_apply'],
])(
  'the step is flushed at commit, and where commits wait for more than that they do: %s becomes %s',
  async (given, during) => {
    const client = await sqlSession(await databaseUrl())
    await client.query(`set synchronous_commit = '${given}'`)
    await client.query('begin')
    await client.query('select holdfast.advance_fence()')
    expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: during }])
  },
)
