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
  /** Who has it. */
  by: string
  /** Who waits. In brackets what the waiting call is known to hold: `b(y)`. */
  waits: string
  kind?: Kind
  forMs?: number
}

/** `x` is held by `a` and waited for by `b`, which may be known to hold `y`. */
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
      ...{ id, kind: 'instance', instance: id, host: null, osPid: null },
      ...{ pids: [], application: null, user: null, job: null },
    }),
  )
  return buildGraph(names, participants)
}

/** `a[x: b[y: c], d]`; an ellipsis where it stands elsewhere in full. */
function sketch({ participant, isRepeated, blocked }: Blocker): string {
  const names = blocked.map(
    ({ name, waiters, isRepeated }) => `${name.label}: ${isRepeated ? '…' : waiters.map(sketch).join(', ')}`,
  )
  return `${participant.id}${isRepeated ? '…' : ''}${names.length > 0 ? `[${names.join('; ')}]` : ''}`
}

const treesOf = (...names: ContendedName[]) => graphOf(...names).roots.map(sketch)

describe('the trees', () => {
  test('begin with who waits for nobody, and go on through what a waiter holds', () => {
    expect(treesOf(name('y', { by: 'b', waits: 'c' }), name('x', { by: 'a', waits: 'b d' }))).toEqual([
      'a[x: b[y: c], d]',
    ])
  })

  test('leave out who neither waits nor is waited for', () => {
    const { participants } = graphOf(name('x', { by: 'a', waits: 'b' }))
    expect(participants.map(({ id }) => id)).toEqual(['a', 'b'])
  })

  test('show who waits below the first of several holders, and what a waiter blocks only once', () => {
    const names = [name('x', { by: 'a b', waits: 'c' }), name('y', { by: 'c', waits: 'd' })]
    expect(treesOf(...names)).toEqual(['a[x: c[y: d]]', 'b[x: …]'])
  })

  test('show a circle, beginning somewhere', () => {
    expect(treesOf(name('x', { by: 'a', waits: 'b' }), name('y', { by: 'b', waits: 'a' }))).toEqual(['a[x: b[y: a…]]'])
  })

  test('show an instance that waits for itself', () => {
    expect(treesOf(name('x', { by: 'a', waits: 'a' }))).toEqual(['a[x: a…]'])
  })

  test('begin with who stands first in the queue where nobody holds the name', () => {
    expect(treesOf(name('x', { by: '', waits: 'writer reader' }))).toEqual(['writer[x: reader]'])
    expect(treesOf(name('x', { by: '', waits: 'writer' }))).toEqual([])
  })

  test('do not hold up who stands for an election', () => {
    const names = [name('x', { by: 'b', waits: 'c' }), name('lead', { by: 'a', waits: 'b', kind: 'election' })]
    expect(treesOf(...names)).toEqual(['b[x: c]', 'a[lead: ]'])
  })
})

describe('a circle', () => {
  const circles = (...names: ContendedName[]) =>
    graphOf(...names).cycles.map(({ isCertain, sides }) => {
      const steps = sides.map(({ participant, holds, waitsFor }) => `${participant}: ${holds} > ${waitsFor}`)
      return `${isCertain ? 'certain' : 'possible'} ${steps.join(', ')}`
    })

  test('is certain where each call is known to hold what the one before it waits for', () => {
    const names = [name('x', { by: 'a', waits: 'b(y)' }), name('y', { by: 'b', waits: 'a(x)' })]
    expect(circles(...names)).toEqual(['certain b: y > x, a: x > y'])
  })

  test('may run through calls of one instance, and through more than two', () => {
    const names = [
      name('x', { by: 'a', waits: 'a(y)' }),
      name('y', { by: 'a', waits: 'c(z)' }),
      name('z', { by: 'c', waits: 'a(x)' }),
    ]
    expect(circles(...names)).toEqual(['certain a: y > x, a: x > z, c: z > y'])
  })

  test('is only possible where instances hold and wait as a whole, for long enough', () => {
    const names = (forMs: number) => [
      name('x', { by: 'a', waits: 'b', forMs }),
      name('y', { by: 'b', waits: 'a', forMs }),
    ]
    expect(circles(...names(2_000))).toEqual(['possible b: y > x, a: x > y'])
    expect(circles(...names(1_999))).toEqual([])
  })

  test('is possible inside one instance over two names, and no circle over one', () => {
    expect(circles(name('x', { by: 'a', waits: 'a' }))).toEqual([])
    expect(circles(name('x', { by: 'a', waits: 'a(x)' }))).toEqual(['certain a: x > x'])
    const names = [name('x', { by: 'a', waits: 'a' }), name('y', { by: 'a', waits: 'a' })]
    expect(circles(...names)).toEqual(['possible a: y > x, a: x > y'])
  })

  test('over a limit is certain only where one alone has its permits', () => {
    const names = (by: string) => [
      name('gpu', { by, waits: 'b(x)', kind: 'limit' }),
      name('x', { by: 'b', waits: 'a(gpu)' }),
    ]
    expect(circles(...names('a'))).toEqual(['certain b: x > gpu, a: gpu > x'])
    expect(circles(...names('a c'))).toEqual(['possible b: x > gpu, a: gpu > x'])
  })

  test('is none where instances stand for each other\u2019s elections, or one no longer holds what its call held', () => {
    const lead = (label: string, by: string, waits: string) => name(label, { by, waits, kind: 'election' })
    expect(circles(lead('x', 'a', 'b'), lead('y', 'b', 'a'))).toEqual([])
    expect(circles(name('x', { by: 'a', waits: 'b(y)' }), name('y', { by: 'c', waits: 'a(x)' }))).toEqual([])
  })
})

test('PostgreSQL tells of the queue as the trees assume', async () => {
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

  async function stage() {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    const database = openPgPool({ connectionString: url })
    onTestFinished(() => database.close())
    const observer = new Observer(database)
    const stateOf = async (id: number) => (await holdfast.jobs.find(id))!.state
    /** Each job that holds back others, with those and how many they are. */
    const blockers = async () =>
      (await observer.graph()).names.map(({ key, waits, waiting }) => [
        Number(key),
        waits.map(({ participant }) => participant),
        waiting,
      ])
    return { url, holdfast, observer, stateOf, blockers }
  }

  test('hold back nobody while their dependants are still to be released', { timeout: 60_000 }, async () => {
    const { url, holdfast, stateOf, blockers } = await stage()
    const job = defineJob('job', { run: () => {} })
    const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
      const first = workflow.add(job, null)
      for (let i = 0; i < 3; i++) workflow.add(job, null, { after: [first] })
    })
    const [first, ...dependants] = jobs.map(({ id }) => id)
    await expect.poll(blockers, soon).toEqual([[first, dependants.map((id) => `job ${id}`), 3]])
    // Dependants are released one by one, by the process that has this lock.
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

  test('hold back only those that wait for their retry if they failed', { timeout: 60_000 }, async () => {
    const { url, holdfast, observer, stateOf, blockers } = await stage()
    const fails = defineJob('fails', {
      run: () => {
        throw new NonRetryableError('broken')
      },
    })
    const job = defineJob('job', { queue: 'nobody serves it', run: () => {} })
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
    // The advice works.
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
  ])('are retried only if they failed: the way out of a job that is %s is to %s', (state, action) => {
    const participant: Participant = {
      ...{ id: 'job 7', kind: 'job', instance: null, host: null, osPid: null },
      ...{ pids: [], application: null, user: null, job: { id: 7, kind: 'mail', queue: 'post', state } },
    }
    const [held] = name('job 7', { by: 'a', waits: 'b', kind: 'job' }).holders
    const holding = { ...held!, how: 'job', job: 7 } as const
    expect(remediesFor(name('job 7', { by: 'a', waits: 'b', kind: 'job' }), holding, participant)).toEqual([
      { action, job: 7 },
    ])
  })
})
