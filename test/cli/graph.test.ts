// Who waits for whom, over everything that can be waited for, as the command line tells it.
import { expect, onTestFinished, test } from 'vitest'
import { DeadlockError, defineJob, type Holdfast } from '../../src/holdfast.js'
import { type Cycle, Observer, type WaitGraph } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { gate, work } from '../jobs/stage.js'
import { sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { run, startOnTerminal } from './program.js'

function observe(url: string): () => Promise<WaitGraph> {
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  const observer = new Observer(database)
  return () => observer.graph()
}

/** Something that waits until its instance closes. */
function waits(promise: Promise<unknown>): void {
  promise.catch(() => {})
}

/** Resolves for all once it has been called by as many. */
function meetingOf(count: number): () => Promise<void> {
  const { opened, open } = gate()
  return () => {
    if (--count === 0) open()
    return opened
  }
}

/** Both take one name and want the other's; answers with how that ended. */
async function crossing(...sides: ((whenHeld: () => Promise<void>) => Promise<unknown>)[]) {
  const meet = meetingOf(sides.length)
  return Promise.allSettled(sides.map((side) => side(meet)))
}

const nested =
  (instance: Holdfast, outer: 'locks' | 'leases', first: string, inner: 'locks' | 'leases', second: string) =>
  (whenHeld: () => Promise<void>) =>
    instance[outer].with(first, async () => {
      await whenHeld()
      return instance[inner].with(second, () => 'went on')
    })

function told({ names }: WaitGraph, { isCertain, sides }: Cycle): string {
  const label = (id: string) => names.find((name) => name.id === id)!.label
  const steps = sides.map(({ holds, waitsFor }) => `${label(holds)} > ${label(waitsFor)}`)
  return `${isCertain ? 'deadlock' : 'possible'}: ${steps.sort().join(', ')}`
}

test('a deadlock is named while it lasts: over a lease and a lock, over leases, over connections of one instance', async () => {
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
  await until('each is named', async () => {
    const found = await graph()
    for (const cycle of found.cycles) named.add(told(found, cycle))
    return named.size === 3 || isOver
  })
  console.info(`Named after ${Math.round(performance.now() - begin)} ms`)
  expect([...named].sort()).toEqual([
    'deadlock: etl > totals, totals > etl',
    'deadlock: left > right, right > left',
    'deadlock: x > y, y > x',
  ])
  // And the library ends it: one side fails, the other goes on.
  for (const outcomes of await ended) {
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(failed.map(({ reason }) => reason)).toEqual([expect.any(DeadlockError)])
  }
  await until('nothing is left of it', async () => (await graph()).names.length === 0)
})

test('who waits for what, whatever it is', { timeout: 60_000 }, async () => {
  const url = await databaseUrl()
  const graph = observe(url)
  const [a, b, c] = [await open({ url }), await open({ url }), await open({ url })]

  // Two connections of one instance: one has what the other waits for, or different calls do.
  await c.locks.acquire(['left', 'right'])
  for (const name of ['left', 'right']) waits(c.locks.acquire(name))

  // In a queue behind another who waits.
  const psql = await sqlSession(url, { application_name: 'psql' })
  await psql.query("select pg_advisory_lock_shared(holdfast.lock_key('default', 'report'))")
  const writer = await sqlSession(url, { application_name: 'psql' })
  waits(writer.query("select pg_advisory_lock(holdfast.lock_key('default', 'report'))"))
  await until('the writer waits', async () => (await graph()).names.some(({ label }) => label === 'report'))
  waits(c.locks.acquire('report', { mode: 'shared' }))

  // Permits.
  await a.limits.acquire('gpu', { max: 2, weight: 2 })
  waits(b.limits.acquire('gpu', { max: 2, wait: '1m' }))
  await until('it waits', async () => (await a.limits.usage('gpu')).waiters.length === 1)
  waits(c.limits.acquire('gpu', { max: 2, weight: 2, wait: '1m' }))

  // Lanes, and jobs that wait for jobs.
  const working = gate()
  onTestFinished(working.open)
  const job = defineJob('ship', { run: () => working.opened })
  work(a, [job])
  const first = await b.jobs.enqueue(job, null, { lane: 'shop:7' })
  await until('it runs', async () => (await b.jobs.find(first.id))?.state === 'running')
  const workflow = await b.jobs.enqueueWorkflow((flow) => {
    const parked = flow.add(job, null, { lane: 'shop:7' })
    flow.add(job, null, { after: [parked] })
  })
  const [parked, after] = workflow.jobs.map(({ id }) => id)

  // A name that is kept by nobody, and an election.
  const kept = await a.leases.tryAcquire("o'clock", { hold: '10m' })
  await kept!.release()
  waits(b.leases.acquire("o'clock"))
  await a.leases.acquire('etl')
  waits(b.leases.acquire('etl'))
  for (const instance of [a, b, c]) instance.elections.campaign('indexer', () => new Promise(() => {}))

  const seen = await until('all is seen, and has lasted', async () => {
    const now = await graph()
    return now.names.length === 9 && now.cycles.length > 0 && now
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
  expect(sketch.filter((line) => !line.startsWith('election')).sort()).toEqual([
    `job ship: job ${parked} < job ${after}`,
    'lane shop:7: a < job '.concat(String(parked)),
    'lease etl: a < b',
    "lease o'clock: nobody < b",
    'limit gpu: a < b c',
    'lock left: c < c',
    'lock report: psql < writer c',
    'lock right: c < c',
  ])
  expect(report.waits.map(({ behind, mode }) => ({ behind, mode }))).toEqual([
    { behind: null, mode: 'exclusive' },
    { behind: report.waits[0]!.participant, mode: 'shared' },
  ])
  expect(seen.cycles.map((cycle) => told(seen, cycle))).toEqual(['possible: left > right, right > left'])

  const env = { DATABASE_URL: url }
  const { stdout: tree, status } = await run(['graph'], env)
  expect(status).toBe(0)
  console.info(tree)
  const shown = (line: string | RegExp) => expect(tree).toMatch(line)
  shown(/^This may be a deadlock:/)
  shown(/^└─ lock report, held shared\n {3}├─ way out: holdfast lock break report$/m)
  shown(new RegExp(`way out: holdfast job cancel ${first.id}$`, 'm'))
  shown(/way out: holdfast limit reset gpu$/m)
  shown(/way out: holdfast lease expire etl$/m)
  shown(
    /nobody: only time helps\n└─ lease o'clock, given back, kept for .*\n {3}├─ way out: holdfast lease expire 'o'\\''clock'$/m,
  )
  shown(/2 stand for it$/m)
})
