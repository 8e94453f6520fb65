import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { defineJob, NonRetryableError } from '../../src/index.js'
import {
  type Blocker,
  buildGraph,
  type ContendedName,
  Observer,
  type Participant,
  remediesFor,
} from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { work } from '../jobs/fixture.js'
import { freshDatabase } from '../setup/database.js'
import { sqlSession } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

type Kind = ContendedName['kind']

interface Waits {
  /** Participants that hold the name. */
  by: string
  /** Participants that wait. What the waiting call is known to hold is in brackets: `b(y)`. */
  waits: string
  kind?: Kind
  forMs?: number
}

/** Returns a name `x` that `a` holds and `b` waits for. `b` may be known to hold `y`. */
function name(label: string, { by, waits, kind = 'lock', forMs = 60_000 }: Waits): ContendedName {
  const how = kind === 'limit' ? 'permit' : 'lock'
  const facts = { mode: 'exclusive', pid: null, job: null, weight: 1, since: null, forMs, freeInMs: null } as const
  const all = waits.split(' ').map((one) => /^(\w+)(?:\((.*)\))?$/.exec(one)!)
  return {
    ...{ id: label, kind, key: label, namespace: 'default', label, queue: null, max: null, inUse: null },
    holders: by === '' ? [] : by.split(' ').map((participant) => ({ ...facts, participant, how })),
    waits: all.map(([, participant, holds]) => ({
      ...{ ...facts, participant: participant!, requests: 1, behind: null },
      calls: holds ? [{ holds: holds.split(',') }] : [],
    })),
    waiting: all.length,
  }
}

function graphOf(...names: ContendedName[]) {
  const participants = ['a', 'b', 'c', 'd', 'reader', 'writer'].map(
    (id): Participant => ({
      ...{ id, kind: 'instance', instance: id, instanceName: id, host: null, osPid: null },
      ...{ pids: [], application: null, user: null, job: null },
    }),
  )
  return buildGraph(names, participants)
}

/** Returns a tree such as `a[x: b[y: c], d]`. An ellipsis marks a part that is shown in full elsewhere. */
function sketch({ participant, isRepeated, blocked }: Blocker): string {
  const names = blocked.map(
    ({ name, waiters, isRepeated }) => `${name.label}: ${isRepeated ? '…' : waiters.map(sketch).join(', ')}`,
  )
  return `${participant.id}${isRepeated ? '…' : ''}${names.length > 0 ? `[${names.join('; ')}]` : ''}`
}

const treesOf = (...names: ContendedName[]) => graphOf(...names).roots.map(sketch)

describe('the trees', () => {
  test('the trees begin with participants that wait for nothing, and continue through what a waiter holds', () => {
    expect(treesOf(name('y', { by: 'b', waits: 'c' }), name('x', { by: 'a', waits: 'b d' }))).toEqual([
      'a[x: b[y: c], d]',
    ])
  })

  test('the trees leave out participants that neither wait nor block', () => {
    const { participants } = graphOf(name('x', { by: 'a', waits: 'b' }))
    expect(participants.map(({ id }) => id)).toEqual(['a', 'b'])
  })

  test('the trees show waiters below the first of several holders, and what a waiter blocks only once', () => {
    const names = [name('x', { by: 'a b', waits: 'c' }), name('y', { by: 'c', waits: 'd' })]
    expect(treesOf(...names)).toEqual(['a[x: c[y: d]]', 'b[x: …]'])
  })

  test('the trees show a cycle, starting at one of its participants', () => {
    expect(treesOf(name('x', { by: 'a', waits: 'b' }), name('y', { by: 'b', waits: 'a' }))).toEqual(['a[x: b[y: a…]]'])
  })

  test('the trees show an instance that waits for itself', () => {
    expect(treesOf(name('x', { by: 'a', waits: 'a' }))).toEqual(['a[x: a…]'])
  })

  test('the trees begin with the first waiter of a name that has no holder', () => {
    expect(treesOf(name('x', { by: '', waits: 'writer reader' }))).toEqual(['writer[x: reader]'])
    expect(treesOf(name('x', { by: '', waits: 'writer' }))).toEqual([])
  })

  test('the trees do not show a candidate of an election as blocked', () => {
    const names = [name('x', { by: 'b', waits: 'c' }), name('lead', { by: 'a', waits: 'b', kind: 'election' })]
    expect(treesOf(...names)).toEqual(['b[x: c]', 'a[lead: ]'])
  })
})

describe('a cycle', () => {
  const cyclesOf = (...names: ContendedName[]) =>
    graphOf(...names).cycles.map(({ isCertain, sides }) => {
      const steps = sides.map(({ participant, holds, waitsFor }) => `${participant}: ${holds} > ${waitsFor}`)
      return `${isCertain ? 'certain' : 'possible'} ${steps.join(', ')}`
    })

  test('a cycle is certain if each call is known to hold what the one before it waits for', () => {
    const names = [name('x', { by: 'a', waits: 'b(y)' }), name('y', { by: 'b', waits: 'a(x)' })]
    expect(cyclesOf(...names)).toEqual(['certain b: y > x, a: x > y'])
  })

  test('a cycle can run through calls of one instance, and through more than two calls', () => {
    const names = [
      name('x', { by: 'a', waits: 'a(y)' }),
      name('y', { by: 'a', waits: 'c(z)' }),
      name('z', { by: 'c', waits: 'a(x)' }),
    ]
    expect(cyclesOf(...names)).toEqual(['certain a: y > x, a: x > z, c: z > y'])
  })

  test('a cycle is only possible if instances hold and wait as a whole, for long enough', () => {
    const names = (forMs: number) => [
      name('x', { by: 'a', waits: 'b', forMs }),
      name('y', { by: 'b', waits: 'a', forMs }),
    ]
    expect(cyclesOf(...names(2_000))).toEqual(['possible b: y > x, a: x > y'])
    expect(cyclesOf(...names(1_999))).toEqual([])
  })

  test('a cycle inside one instance is possible over two names, but not over one', () => {
    expect(cyclesOf(name('x', { by: 'a', waits: 'a' }))).toEqual([])
    expect(cyclesOf(name('x', { by: 'a', waits: 'a(x)' }))).toEqual(['certain a: x > x'])
    const names = [name('x', { by: 'a', waits: 'a' }), name('y', { by: 'a', waits: 'a' })]
    expect(cyclesOf(...names)).toEqual(['possible a: y > x, a: x > y'])
  })

  test('a cycle over a limit is certain only if one participant has all its permits', () => {
    const names = (by: string) => [
      name('gpu', { by, waits: 'b(x)', kind: 'limit' }),
      name('x', { by: 'b', waits: 'a(gpu)' }),
    ]
    expect(cyclesOf(...names('a'))).toEqual(['certain b: x > gpu, a: gpu > x'])
    expect(cyclesOf(...names('a c'))).toEqual(['possible b: x > gpu, a: gpu > x'])
  })

  test('a cycle does not run through candidates of elections, or through an instance that no longer holds the name', () => {
    const lead = (label: string, by: string, waits: string) => name(label, { by, waits, kind: 'election' })
    expect(cyclesOf(lead('x', 'a', 'b'), lead('y', 'b', 'a'))).toEqual([])
    expect(cyclesOf(name('x', { by: 'a', waits: 'b(y)' }), name('y', { by: 'c', waits: 'a(x)' }))).toEqual([])
  })
})

test('PostgreSQL reports the queue of a lock as the trees assume', async () => {
  const fresh = await freshDatabase()
  const database = openPgPool({ connectionString: fresh.url })
  const observer = new Observer(database)
  const clients = [0, 1, 2].map(() => new pg.Client({ connectionString: fresh.url }))
  for (const client of clients) {
    client.on('error', () => {})
    await client.connect()
  }
  const pids = await Promise.all(
    clients.map(async (client) => (await client.query('select pg_backend_pid() as pid')).rows[0].pid as number),
  )
  const [reader, writer, late] = clients as [pg.Client, pg.Client, pg.Client]
  const waiters = async () => (await observer.locks()).filter(({ granted }) => !granted).length
  await reader.query('select pg_advisory_lock_shared(1)')
  writer.query('select pg_advisory_lock(1)').catch(() => {})
  await expect.poll(waiters, { timeout: 20_000 }).toBe(1)
  late.query('select pg_advisory_lock_shared(1)').catch(() => {})
  await expect.poll(waiters, { timeout: 20_000 }).toBe(2)
  const { names } = await observer.graph()
  expect(names).toMatchObject([
    {
      key: '1',
      holders: [{ participant: `session ${pids[0]}`, mode: 'shared', pid: pids[0] }],
      waits: [
        { participant: `session ${pids[1]}`, mode: 'exclusive', behind: null },
        { participant: `session ${pids[2]}`, mode: 'shared', behind: `session ${pids[1]}` },
      ],
    },
  ])
  await database.close()
  await fresh.drop()
})

describe('jobs that have ended', () => {
  const soon = { timeout: 20_000 }

  async function createFixture() {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    const database = openPgPool({ connectionString: url })
    onTestFinished(() => database.close())
    const observer = new Observer(database)
    const stateOf = async (id: number) => (await holdfast.jobs.find(id))!.state
    /** Returns each job that blocks others, with the blocked jobs and their number. */
    const blockers = async () =>
      (await observer.graph()).names.map(({ key, waits, waiting }) => [
        Number(key),
        waits.map(({ participant }) => participant),
        waiting,
      ])
    return { url, holdfast, observer, stateOf, blockers }
  }

  test('a job that is done blocks no job while its dependants wait for their release', {
    timeout: 60_000,
  }, async () => {
    const { url, holdfast, stateOf, blockers } = await createFixture()
    const job = defineJob('job', { run: () => {} })
    const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
      const first = workflow.add(job, null)
      for (let i = 0; i < 3; i++) workflow.add(job, null, { after: [first] })
    })
    const [first, ...dependants] = jobs.map(({ id }) => id)
    await expect.poll(blockers, soon).toEqual([[first, dependants.map((id) => `job ${id}`), 3]])
    // The process that holds this lock releases dependants one by one.
    const releasing = await sqlSession(url)
    await releasing.query("select pg_advisory_lock(holdfast.lock_class('job follow-ups'), 0)")
    work(holdfast, [job])
    await expect.poll(() => stateOf(first!), soon).toBe('done')
    expect(await blockers()).toEqual([])
    const [waiting] = dependants
    expect((await holdfast.jobs.find(waiting!))!.waitsFor).toEqual({
      reason: 'jobs',
      jobs: [],
      text: 'its release, because all jobs on which it depends have ended',
    })
    await releasing.end()
    await expect.poll(() => stateOf(dependants.at(-1)!), soon).toBe('done')
  })

  test('a job that has failed blocks only the jobs that wait for its retry', { timeout: 60_000 }, async () => {
    const { url, holdfast, observer, stateOf, blockers } = await createFixture()
    const fails = defineJob('fails', {
      run: () => {
        throw new NonRetryableError('broken')
      },
    })
    const job = defineJob('job', { queue: 'without workers', run: () => {} })
    const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
      const first = workflow.add(fails, null)
      workflow.add(job, null, { after: [first] })
      workflow.add(job, null, { after: [first], ifFailed: 'run' })
      workflow.add(job, null, { after: [first], ifFailed: 'wait' })
    })
    const [first, cancelled, runs, waits] = jobs.map(({ id }) => id)
    await expect.poll(blockers, soon).toMatchObject([[first, { length: 3 }, 3]])
    const releasing = await sqlSession(url)
    await releasing.query("select pg_advisory_lock(holdfast.lock_class('job follow-ups'), 0)")
    work(holdfast, [fails])
    await expect.poll(() => stateOf(first!), soon).toBe('buried')
    expect(await blockers()).toEqual([[first, [`job ${waits}`], 1]])
    expect((await holdfast.jobs.find(runs!))!.waitsFor).toMatchObject({ reason: 'jobs', jobs: [] })
    const { names, participants } = await observer.graph()
    const [name] = names
    const who = participants.find(({ id }) => id === `job ${first}`)!
    expect(remediesFor(name!, name!.holders[0], who)).toEqual([{ action: 'retry', job: first }])
    // The remedy works.
    await releasing.end()
    await expect.poll(() => stateOf(cancelled!), soon).toBe('cancelled')
    expect(await holdfast.jobs.retry(first!)).toBe(true)
  })

  test.each([
    ['ready', 'inspect'],
    ['waiting', 'inspect'],
    ['done', 'inspect'],
    ['discarded', 'inspect'],
    ['buried', 'retry'],
    ['cancelled', 'retry'],
  ])('the remedy for a blocking job that is %s is: %s', (state, action) => {
    const participant: Participant = {
      ...{ id: 'job 7', kind: 'job', instance: null, instanceName: null, host: null, osPid: null },
      ...{ pids: [], application: null, user: null, job: { id: 7, kind: 'mail', queue: 'post', state } },
    }
    const [held] = name('job 7', { by: 'a', waits: 'b', kind: 'job' }).holders
    const holding = { ...held!, how: 'job', job: 7 } as const
    expect(remediesFor(name('job 7', { by: 'a', waits: 'b', kind: 'job' }), holding, participant)).toEqual([
      { action, job: 7 },
    ])
  })
})
