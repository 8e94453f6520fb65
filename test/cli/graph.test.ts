// Tests the wait-for graph that the command line prints, for everything that can be waited for.
import { expect, onTestFinished, test } from 'vitest'
import { pause } from '../../src/base/index.js'
import { DeadlockError, defineJob, type Holdfast } from '../../src/index.js'
import { type Cycle, Observer, type WaitGraph } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { gate, work } from '../jobs/fixture.js'
import { sqlSession, until, untilRegistered } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { run, startOnTerminal } from './program.js'
import { fits, fitsRow } from './schemas.js'

function observe(url: string): () => Promise<WaitGraph> {
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  const observer = new Observer(database)
  return () => observer.graph()
}

/** Starts a wait that ends when its instance closes. */
function waits(promise: Promise<unknown>): void {
  promise.catch(() => {})
}

/** Returns a function whose calls all resolve after `count` calls. */
function meetingOf(count: number): () => Promise<void> {
  const { opened, open } = gate()
  return () => {
    if (--count === 0) open()
    return opened
  }
}

/** Runs the sides at the same time. Each holds one name and waits for the name of the other. Returns how each side ended. */
async function crossing(...sides: ((whenHeld: () => Promise<void>) => Promise<unknown>)[]) {
  const meet = meetingOf(sides.length)
  return Promise.allSettled(sides.map((side) => side(meet)))
}

/** Holds a name with a lock or a lease while `what` runs. */
const holding = (instance: Holdfast, room: 'locks' | 'leases', name: string, what: () => Promise<unknown>) =>
  room === 'locks' ? instance.locks.with(name, what) : instance.leases.with(name, what)

const nested =
  (instance: Holdfast, outer: 'locks' | 'leases', first: string, inner: 'locks' | 'leases', second: string) =>
  (whenHeld: () => Promise<void>) =>
    holding(instance, outer, first, async () => {
      await whenHeld()
      return holding(instance, inner, second, async () => 'went on')
    })

function describeCycle({ names }: WaitGraph, { isCertain, sides }: Cycle): string {
  const label = (id: string) => names.find((name) => name.id === id)!.label
  const steps = sides.map(({ holds, waitsFor }) => `${label(holds)} > ${label(waitsFor)}`)
  return `${isCertain ? 'deadlock' : 'possible'}: ${steps.sort().join(', ')}`
}

/**
 * Checks that each line is a node or an edge between nodes of earlier lines, with all text quoted. The output uses no other DOT
 * syntax.
 */
function expectDot(text: string): void {
  const lines = text.trimEnd().split('\n')
  expect([lines[0], lines[1], lines.at(-1)]).toEqual(['digraph holdfast {', '  rankdir=LR', '}'])
  const quoted = '"((?:[^"\\\\]|\\\\.)*)"'
  const attributes = `(?: \\[(?:shape=box, )?(?:\\w+=(?:${quoted}|\\d+)(?:, )?)+\\])?`
  const nodes = new Set<string>()
  for (const line of lines.slice(2, -1)) {
    const edge = new RegExp(`^ {2}${quoted} -> ${quoted}${attributes}$`).exec(line)
    const node = new RegExp(`^ {2}${quoted}${attributes}$`).exec(line)
    expect(edge ?? node, line).not.toBeNull()
    if (node) nodes.add(node[1]!)
    else expect([...nodes]).toEqual(expect.arrayContaining([edge![1], edge![2]]))
  }
}

test('graph shows a deadlock while it lasts: between a lease and a lock, between leases, and between connections of one instance', async () => {
  const url = await databaseUrl()
  const graph = observe(url)
  const [a, b] = [await open({ url }), await open({ url })]
  const unanchored = await open({ url, anchor: 'none' })
  const begin = performance.now()
  const ends = [
    crossing(nested(a, 'leases', 'etl', 'locks', 'totals'), nested(b, 'locks', 'totals', 'leases', 'etl')),
    crossing(nested(a, 'locks', 'left', 'locks', 'right'), nested(a, 'locks', 'right', 'locks', 'left')),
    crossing(nested(unanchored, 'leases', 'x', 'leases', 'y'), nested(b, 'leases', 'y', 'leases', 'x')),
  ]
  const named = new Set<string>()
  const ended = Promise.all(ends)
  let isOver = false
  void ended.then(() => {
    isOver = true
  })
  await until('the graph has shown each deadlock', async () => {
    const found = await graph()
    for (const cycle of found.cycles) named.add(describeCycle(found, cycle))
    return named.size === 3 || isOver
  })
  console.info(`Named after ${Math.round(performance.now() - begin)} ms`)
  expect([...named].sort()).toEqual([
    'deadlock: etl > totals, totals > etl',
    'deadlock: left > right, right > left',
    'deadlock: x > y, y > x',
  ])
  // The library then ends each deadlock: one side fails and the other side continues.
  for (const outcomes of await ended) {
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(failed.map(({ reason }) => reason)).toEqual([expect.any(DeadlockError)])
  }
  await until('the graph is empty', async () => (await graph()).names.length === 0)
})

test('graph shows who waits for whom, for every kind of name and in every format', { timeout: 120_000 }, async () => {
  const url = await databaseUrl()
  const graph = observe(url)
  const [a, b, c] = [await open({ url }), await open({ url }), await open({ url })]

  // One instance holds two names and waits for both. One call may wait for itself, or different calls may hold and wait.
  await c.locks.acquire(['left', 'right'])
  for (const name of ['left', 'right']) waits(c.locks.acquire(name))

  // c waits in a queue behind another waiter.
  await b.locks.with('report', () => untilRegistered(url, 'report'))
  const psql = await sqlSession(url, { application_name: 'psql' })
  await psql.query("select pg_advisory_lock_shared(holdfast.lock_key('default', 'report'))")
  const writer = await sqlSession(url, { application_name: 'psql' })
  waits(writer.query("select pg_advisory_lock(holdfast.lock_key('default', 'report'))"))
  await until('the graph shows that the writer waits', async () =>
    (await graph()).names.some(({ label }) => label === 'report'),
  )
  waits(c.locks.acquire('report', { mode: 'shared' }))

  // Permits.
  await a.limits.acquire('gpu', { max: 2, weight: 2 })
  waits(b.limits.acquire('gpu', { max: 2, wait: '1m' }))
  await until('b waits for a permit', async () => (await a.limits.usage('gpu')).waiters.length === 1)
  waits(c.limits.acquire('gpu', { max: 2, weight: 2, wait: '1m' }))

  // Lanes, and jobs that wait for other jobs.
  const working = gate()
  onTestFinished(working.open)
  const job = defineJob('ship', { run: () => working.opened })
  work(a, [job])
  const first = await b.jobs.enqueue(job, null, { lane: 'shop:7' })
  await until('the first job runs', async () => (await b.jobs.find(first.id))?.state === 'running')
  const workflow = await b.jobs.enqueueWorkflow((flow) => {
    const blocked = flow.add(job, null, { lane: 'shop:7' })
    flow.add(job, null, { after: [blocked] })
  })
  const [blocked, after] = workflow.jobs.map(({ id }) => id)

  // A lease that its minimum hold keeps after the release, a lease with a holder, and an election.
  const kept = await a.leases.tryAcquire("o'clock", { minHold: '10m' })
  await kept!.release()
  waits(b.leases.acquire("o'clock"))
  await a.leases.acquire('etl')
  waits(b.leases.acquire('etl'))
  for (const instance of [a, b, c]) instance.elections.campaign('indexer', ({ signal }) => pause(600_000, signal))

  // Twelve sessions wait for one name. The tree shows only some of them.
  const crowd = await Promise.all(Array.from({ length: 12 }, () => sqlSession(url)))
  await a.locks.acquire('crowd')
  for (const one of crowd) waits(one.query('select pg_advisory_lock($1::bigint)', [a.locks.key('crowd')]))

  const seen = await until('the graph shows every name, every waiter and a cycle', async () => {
    const now = await graph()
    const isCrowded = now.names.some(({ label, waits }) => label === 'crowd' && waits.length === 12)
    return isCrowded && now.names.length === 10 && now.cycles.length > 0 && now
  })
  const report = seen.names.find(({ label }) => label === 'report')!
  const who = new Map([
    [a.id, 'a'],
    [b.id, 'b'],
    [c.id, 'c'],
    [report.holders[0]!.participant, 'psql'],
    [report.waits[0]!.participant, 'writer'],
  ])
  const sketch = seen.names.map(({ kind, label, holders, waits, waiting }) => {
    const [has, waitsFor] = [holders, waits].map((all) => all.map(({ participant: id }) => who.get(id) ?? id).join(' '))
    return `${kind} ${label}: ${has} < ${waitsFor}${waiting === waits.length ? '' : ' …'}`
  })
  expect(sketch.filter((line) => !/^election|^lock crowd/.test(line)).sort()).toEqual([
    `job ship: job ${blocked} < job ${after}`,
    'lane shop:7: a < job '.concat(String(blocked)),
    'lease etl: a < b',
    "lease o'clock: no-holder < b",
    'limit gpu: a < b c',
    'lock left: c < c',
    'lock report: psql < writer c',
    'lock right: c < c',
  ])
  expect(report.waits.map(({ behind, mode }) => ({ behind, mode }))).toEqual([
    { behind: null, mode: 'exclusive' },
    { behind: report.waits[0]!.participant, mode: 'shared' },
  ])
  expect(seen.cycles.map((cycle) => describeCycle(seen, cycle))).toEqual(['possible: left > right, right > left'])

  const env = { DATABASE_URL: url }
  const { stdout: tree, status } = await run(['graph'], env)
  expect(status).toBe(0)
  expect(tree).toMatch(/^Possible deadlock:/)
  for (const command of [
    'lock break report',
    'lock release left',
    `job cancel ${first.id}`,
    'limit reset gpu',
    'lease expire etl',
    "lease expire 'o'\\''clock'",
  ]) {
    expect(tree).toMatch(new RegExp(`^[ │]*├─ remedy: holdfast ${command.replaceAll('\\', '\\\\')}$`, 'm'))
  }
  expect(tree).toMatch(/^no holder\n└─ lease o'clock, released, but blocked by its minimum hold for another /m)
  expect(tree).toMatch(/^[ │]*└─ 2 candidates$/m)
  expect(tree).toMatch(/^[ │]*└─ and 2 more waiting$/m)
  expect(tree).toMatch(
    new RegExp(`job ${blocked} \\(ship\\) waits for .*\\n.*its end\\n.*job ${after} \\(ship\\) waits for `),
  )

  const narrow = startOnTerminal(['graph'], env)
  const lines = (await narrow.ended).stdout.split('\r\n')
  expect(lines.join('\n')).toContain('\x1b[32mremedy: ')
  const commands = /remedy:|or:/
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are made of them
  const widths = lines.filter((line) => !commands.test(line)).map((line) => line.replace(/\x1b\[\d+m/g, '').length)
  expect(Math.max(...widths)).toBeLessThanOrEqual(80)

  const document = fits('graph', JSON.parse((await run(['graph', '--json'], env)).stdout))
  expect(document.names).toHaveLength(10)
  const { stdout: rows } = await run(['graph', '--jsonl'], env)
  const each = rows
    .trimEnd()
    .split('\n')
    .map((row) => fitsRow('graph', JSON.parse(row)))
  expect(each.filter(({ kind }) => kind === 'limit')).toMatchObject([
    { waiter: b.id, blockers: [a.id], isDeadlocked: false },
    { waiter: c.id, blockers: [a.id] },
  ])

  const { stdout: dot } = await run(['graph', '--dot'], env)
  expectDot(dot)
  expect(dot).toContain('[color="red", style="dashed"]')
  // A waiting job that another job waits for is one node, without an edge to itself.
  expect(dot.match(new RegExp(`^  "job ${blocked}" \\[`, 'gm'))).toHaveLength(1)
  expect(dot).not.toMatch(/("[^"]+") -> \1/)
  const limit = seen.names.find(({ kind }) => kind === 'limit')!
  expect(dot).toContain(`"${limit.id}" -> "${a.id}"`)
})
