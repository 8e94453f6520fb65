import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { defineJob, type Holdfast, JobOutcome, type JobParent, NonRetryableError, UsageError } from '../../src/index.js'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { countOf } from '../property/seed.js'
import { caught, sql, sqlSession, until, Witness, within } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { randomFrom, seed as seedOf } from '../setup/random.js'
import { gate, intercept, rowsOf, untilState, work } from './fixture.js'

const wait = { wait: '15s' } as const

async function nothingLeft(url: string): Promise<void> {
  await until('no follow-up is left', async () => (await sql(url, 'select from holdfast.follow_up')).length === 0)
  expect(await sql(url, 'select from holdfast.dependency')).toEqual([])
}

describe.each(['required', 'none'] as const)('with anchor: %s', (anchor) => {
  test('a job runs after its parents are done, and reads their results', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url, anchor })
    const order: string[] = []
    const seen: JobParent[][] = []
    const fetch = defineJob('fetch', {
      run: (name: string) => {
        order.push(name)
        return `page of ${name}`
      },
    })
    const index = defineJob('index', {
      run: async (_: null, job) => {
        order.push('index')
        seen.push(await job.parents())
        return job.parents().then((parents) => parents.map(({ result }) => result))
      },
    })
    work(holdfast, [fetch, index])
    const { id, jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
      const pages = ['a', 'b', 'c'].map((name) => workflow.add(fetch, name))
      workflow.add(index, null, { after: [pages[1]!, pages[0]!, pages[2]!] })
    })
    expect(id).toBe(jobs[0]!.id)
    expect(await holdfast.jobs.result(jobs[3]!.id, wait)).toEqual(['page of b', 'page of a', 'page of c'])
    expect(order.at(-1)).toBe('index')
    expect(seen[0]![0]).toEqual({
      id: jobs[1]!.id,
      kind: 'fetch',
      state: 'done',
      result: 'page of b',
      error: undefined,
    })
    const whole = (await holdfast.jobs.workflow(jobs[2]!.id))!
    expect(whole).toMatchObject({ id, isOver: true, counts: { done: 4 } })
    expect(whole.jobs.map((job) => [job.id, job.kind, job.state, job.attempts])).toEqual(
      jobs.map((job, at) => [job.id, at < 3 ? 'fetch' : 'index', 'done', 1]),
    )
    expect(whole.jobs[3]!.after).toEqual([jobs[1]!.id, jobs[0]!.id, jobs[2]!.id])
    expect(await holdfast.jobs.workflow(10_000_000)).toBeNull()
    await nothingLeft(url)
  })

  test('a job waits for parents that are done, running or delayed, also with its own delay and lane', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url, anchor })
    const opening = gate()
    const ran: string[] = []
    const job = defineJob('job', {
      run: async (name: string) => {
        if (name === 'running') await opening.opened
        ran.push(name)
      },
    })
    work(holdfast, [job])
    const done = await holdfast.jobs.enqueue(job, 'done')
    await holdfast.jobs.result(done.id, wait)
    const running = await holdfast.jobs.enqueue(job, 'running')
    await untilState(holdfast, running.id, 'running')
    const delayed = await holdfast.jobs.enqueue(job, 'delayed', { delay: 300 })
    const last = await holdfast.jobs.enqueue(job, 'last', { after: [done, running, delayed.id], lane: 'a', delay: 100 })
    const free = await holdfast.jobs.enqueue(job, 'free', { after: [done] })
    await holdfast.jobs.result(free.id, wait)
    await holdfast.jobs.result(delayed.id, wait)
    expect((await holdfast.jobs.find(last.id))!.state).toBe('waiting')
    opening.open()
    await holdfast.jobs.result(last.id, wait)
    // On a slow machine the delay may end before the job that does not wait for it has run.
    expect(ran.filter((name) => name !== 'free')).toEqual(['done', 'delayed', 'running', 'last'])
    await nothingLeft(url)
  })

  test('a transaction enqueues a whole workflow or nothing, and the end of a parent does not wait for an open transaction', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url, anchor })
    const opening = gate()
    const job = defineJob('job', { run: async (n: number) => (n === 0 ? await opening.opened : n) })
    work(holdfast, [job])
    const first = await holdfast.jobs.enqueue(job, 0)
    await untilState(holdfast, first.id, 'running')
    const client = await sqlSession(url)
    await client.query('begin')
    const { id, jobs } = await holdfast.jobs.enqueueWorkflow({ tx: client }, (workflow) => {
      const one = workflow.add(job, 1, { after: [first] })
      workflow.add(job, 2, { after: [one] })
    })
    expect(await holdfast.jobs.workflow(id)).toBeNull()
    opening.open()
    await within(5_000, 'The end of the first job', holdfast.jobs.result(first.id, wait))
    await client.query('commit')
    expect(await holdfast.jobs.result(jobs[1]!.id, wait)).toBe(2)
    await client.query('begin')
    const undone = await holdfast.jobs.enqueueWorkflow({ tx: client }, (workflow) => void workflow.add(job, 3))
    await client.query('rollback')
    expect(await holdfast.jobs.workflow(undone.id)).toBeNull()
    await nothingLeft(url)
  })
})

test('children of a failed job are cancelled with their descendants, run anyway, or wait for a retry, depending on ifFailed', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  let isBroken = true
  const job = defineJob('job', {
    run: (what: string) => {
      if (what === 'fails' && isBroken) throw new NonRetryableError('broken')
      return what === 'nothing to do' ? JobOutcome.discard() : what
    },
  })
  const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
    const fails = workflow.add(job, 'fails')
    const nothing = workflow.add(job, 'nothing to do')
    const cancelled = workflow.add(job, 'cancelled', { after: [nothing, fails] })
    const below = workflow.add(job, 'below', { after: [cancelled, nothing] })
    workflow.add(job, 'bottom', { after: [below], ifFailed: 'run' })
    workflow.add(job, 'runs', { after: [fails], ifFailed: 'run' })
    const waits = workflow.add(job, 'waits', { after: [fails], ifFailed: 'wait' })
    workflow.add(job, 'waits for it', { after: [waits] })
    workflow.add(job, 'after nothing', { after: [nothing] })
  })
  work(holdfast, [job])
  const states = async () => (await holdfast.jobs.workflow(jobs[0]!.id))!.jobs.map(({ state }) => state)
  const expected = ['buried', 'discarded', 'cancelled', 'cancelled', 'done', 'done', 'waiting', 'waiting', 'done']
  await until('all jobs that can end have ended', async () => String(await states()) === String(expected))
  const [fails, , cancelled, below] = jobs
  const waits = (await holdfast.jobs.find(jobs[6]!.id))!.waitsFor
  expect(waits).toMatchObject({ reason: 'jobs', text: `other jobs: ${fails!.id} (buried)` })
  expect((await holdfast.jobs.find(cancelled!.id))!.error).toMatchObject({
    name: 'JobCancelledError',
    message: `The job ${fails!.id}, which it waited for, was buried`,
    code: 'JOB_CANCELLED',
  })
  expect((await holdfast.jobs.find(below!.id))!.error!.message).toBe(
    `The job ${cancelled!.id}, which it waited for, was cancelled`,
  )
  const whole = (await holdfast.jobs.workflow(fails!.id))!
  expect(whole.isOver).toBe(false)
  expect(whole.counts).toEqual({ buried: 1, discarded: 1, cancelled: 2, done: 3, waiting: 2 })
  expect(whole.jobs[6]!.waitsFor).toEqual([fails!.id])
  // Jobs that are enqueued later and wait for the failed job.
  const late = await holdfast.jobs.enqueue(job, 'late', { after: [fails!] })
  await untilState(holdfast, late.id, 'cancelled')
  const patient = await holdfast.jobs.enqueue(job, 'patient', { after: [fails!], ifFailed: 'wait' })
  await untilState(holdfast, patient.id, 'waiting')
  isBroken = false
  await holdfast.jobs.redrive('default')
  expect(await holdfast.jobs.result(jobs[7]!.id, wait)).toBe('waits for it')
  expect(await holdfast.jobs.result(patient.id, wait)).toBe('patient')
  // A cancelled job that is retried waits for its parents again. Now all of them have succeeded.
  expect(await holdfast.jobs.retry(cancelled!.id)).toBe(true)
  expect(await holdfast.jobs.result(cancelled!.id, wait)).toBe('cancelled')
  await nothingLeft(url)
})

test('a buried job whose row a session has locked is redriven after the lock is released, and other jobs do not wait', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  let isBroken = true
  const job = defineJob('job', {
    run: (what: string) => {
      if (what === 'fails' && isBroken) throw new NonRetryableError('broken')
      return what
    },
  })
  work(holdfast, [job])
  const fails = await holdfast.jobs.enqueue(job, 'fails')
  await untilState(holdfast, fails.id, 'buried')
  isBroken = false
  const client = await sqlSession(url)
  await client.query('begin')
  await client.query('select from holdfast.job_stopped where id = $1 for update', [fails.id])
  const redriven = holdfast.jobs.redrive('default')
  const blocked = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await until('the redrive waits for the row lock', async () => (await sql(url, blocked)).length > 0)
  const patient = await holdfast.jobs.enqueue(job, 'patient', { after: [fails], ifFailed: 'wait' })
  const first = await holdfast.jobs.enqueue(job, 'first')
  const second = await holdfast.jobs.enqueue(job, 'second', { after: [first] })
  expect(await holdfast.jobs.result(second.id, wait)).toBe('second')
  await client.query('commit')
  expect(await within(5_000, 'The redrive', redriven)).toBe(1)
  expect(await holdfast.jobs.result(patient.id, wait)).toBe('patient')
  await nothingLeft(url)
})

test('follow-ups of a job whose dependent a transaction has locked are not run again in a tight loop', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const job = defineJob('job', {
    run: async (name: string) => {
      if (name === 'first') await opening.opened
    },
  })
  work(holdfast, [job])
  const first = await holdfast.jobs.enqueue(job, 'first')
  const dependent = await holdfast.jobs.enqueue(job, 'dependent', { after: [first] })
  const waiting = "select from holdfast.waiting where stage = 'jobs'"
  await until('the dependent waits', async () => (await sql(url, waiting)).length === 1)
  const client = await sqlSession(url)
  await client.query('begin')
  await client.query('select from holdfast.waiting where id = $1 for update', [dependent.id])
  let passes = 0
  intercept(holdfast, (run, text) => {
    if (text.includes('job_run_follow_ups')) passes++
    return run()
  })
  opening.open()
  await until('the follow-ups are run', () => passes > 0)
  // Counts for a fixed time, because the fact is a rate.
  await sleep(300)
  // A pass takes about a millisecond, and follows a pause of 20 ms.
  expect(passes).toBeLessThan(30)
  await client.query('commit')
  await untilState(holdfast, dependent.id, 'done')
})

test('a dependent that is cancelled or expires leaves no dependency behind', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  const first = await holdfast.jobs.enqueue(job, null)
  const cancelled = await holdfast.jobs.enqueue(job, null, { after: [first] })
  const expiring = await holdfast.jobs.enqueue(job, null, { after: [first], startBy: 500 })
  const dependencies = async () => (await sql(url, 'select from holdfast.dependency')).length
  await until('both jobs wait', async () => (await dependencies()) === 2)
  await holdfast.jobs.cancel(cancelled.id)
  expect(await dependencies()).toBe(1)
  work(holdfast, [defineJob('other', { queue: 'other', run: () => {} })])
  await untilState(holdfast, expiring.id, 'expired')
  expect(await dependencies()).toBe(0)
})

test('children belong to the workflow of their parent, and other jobs can wait for them', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const part = defineJob('part', { run: (n: number) => n * 2 })
  const sum = defineJob('sum', {
    run: async (_: null, job) => (await job.parents()).reduce((all, { result }) => all + (result as number), 0),
  })
  const spread = defineJob('spread', {
    run: async (count: number, job) => {
      const parts = []
      for (let n = 0; n < count; n++) parts.push(await job.enqueue(part, n))
      return (await job.enqueue(sum, null, { after: parts })).id
    },
  })
  work(holdfast, [part, sum, spread])
  const { id } = await holdfast.jobs.enqueueWorkflow((workflow) => void workflow.add(spread, 10))
  const last = (await holdfast.jobs.result(id, wait)) as number
  expect(await holdfast.jobs.result(last, wait)).toBe(90)
  expect(await holdfast.jobs.workflow(last)).toMatchObject({ id, isOver: true, counts: { done: 12 } })
  await nothingLeft(url)
})

test('3,000 jobs can wait for one job, and one job can wait for 3,000 jobs', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: (n: number) => n })
  work(holdfast, [job], { concurrency: 50 })
  const many = 3_000
  const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
    const root = workflow.add(job, 0)
    const parts = Array.from({ length: many }, (_, n) => workflow.add(job, n, { after: [root] }))
    workflow.add(job, -1, { after: parts })
  })
  const from = performance.now()
  expect(await holdfast.jobs.result(jobs.at(-1)!.id, { wait: '25s' })).toBe(-1)
  console.log(`${many} out and in: ${(performance.now() - from).toFixed(0)} ms`)
  await nothingLeft(url)
})

interface Node {
  readonly end: 'done' | 'bury' | 'cancel' | 'discard'
  readonly ifFailed: 'cancel' | 'run' | 'wait'
  readonly after: readonly number[]
}

/** Returns the expected final state of each job. The order of the runs does not affect it. */
function judge(nodes: readonly Node[]): string[] {
  const states: string[] = []
  const ends = { done: 'done', bury: 'buried', cancel: 'cancelled', discard: 'discarded' }
  for (const { end, ifFailed, after } of nodes) {
    const before = after.map((at) => states[at]!)
    const hasFailed = before.some((state) => state === 'buried' || state === 'cancelled')
    if (hasFailed && ifFailed === 'cancel') states.push('cancelled')
    else if (before.includes('waiting') || (hasFailed && ifFailed === 'wait')) states.push('waiting')
    else states.push(ends[end])
  }
  return states
}

async function walk(url: string, fleet: Holdfast[], seed: number, size: number, disturb = async (_: number) => {}) {
  const random = randomFrom(seed)
  const below = (n: number) => Math.floor(random() * n)
  const job = defineJob('node', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 20 },
    lanes: { max: 2 },
    run: async ({ end, byTx, ms, fails }: Node & { byTx: boolean; ms: number; fails: boolean }, { tx, attempt }) => {
      if (byTx) await tx.query('select 1')
      // The job takes some time, and a disturbance may interrupt it.
      await new Promise((resolve) => setTimeout(resolve, ms))
      if (fails && attempt === 1) throw new Error('the first time')
      if (end === 'bury') throw new NonRetryableError('as requested')
      return end === 'cancel' ? JobOutcome.cancel() : end === 'discard' ? JobOutcome.discard() : 'done'
    },
  })
  for (const holdfast of fleet) work(holdfast, [job], { concurrency: 10 })
  const nodes: Node[] = Array.from({ length: size }, (_, at) => ({
    end: (['bury', 'cancel', 'discard'] as const)[below(12)] ?? 'done',
    ifFailed: (['cancel', 'run', 'wait'] as const)[below(3)]!,
    after: at === 0 ? [] : [...new Set(Array.from({ length: below(4) }, () => Math.max(0, at - 1 - below(12))))],
  }))
  // One half is a workflow. The other jobs are enqueued one by one, and wait for jobs that are running, ended or not yet
  // admitted.
  const inputOf = (node: Node) => ({ ...node, byTx: below(3) === 0, ms: below(6), fails: below(5) === 0 })
  const optionsOf = ({ ifFailed }: Node) => ({ ifFailed, ...(below(4) === 0 ? { lane: 'a' } : {}) })
  const half = size >> 1
  const { jobs } = await fleet[0]!.jobs.enqueueWorkflow((workflow) => {
    const parts: ReturnType<typeof workflow.add>[] = []
    for (const node of nodes.slice(0, half)) {
      const after = node.after.map((at) => parts[at]!)
      parts.push(workflow.add(job, inputOf(node), { ...optionsOf(node), after }))
    }
  })
  const ids = jobs.map(({ id }) => id)
  for (const node of nodes.slice(half)) {
    const holdfast = fleet[below(fleet.length)]!
    const after = node.after.map((at) => ids[at]!)
    ids.push((await holdfast.jobs.enqueue(job, inputOf(node), { ...optionsOf(node), after })).id)
    await disturb(ids.length)
  }
  const witness = new Witness(url)
  onTestFinished(() => witness.close())
  const expected = judge(nodes)
  const states = async () => {
    const rows = await witness.query<{ id: string; state: string }>(
      `select id, state from holdfast.job_history
       union all select id, 'waiting' from holdfast.waiting
       union all select id, 'live' from holdfast.job_live`,
    )
    const byId = new Map(rows.map(({ id, state }) => [Number(id), state]))
    return ids.map((id) => byId.get(id))
  }
  let last: (string | undefined)[] = []
  await until(
    'all jobs are in the states that their policies require',
    async () => {
      last = await states()
      return String(last) === String(expected)
    },
    40_000,
  ).catch(() => {
    const wrong = ids.flatMap((id, at) => (last[at] === expected[at] ? [] : [{ id, is: last[at], not: expected[at] }]))
    throw new Error(`Jobs in other states than their policies require: ${JSON.stringify(wrong)}`)
  })
  expect(await witness.query('select * from holdfast.lane_faults()')).toEqual([])
  expect((await rowsOf(url)).job).toBe(0)
}

test('random graphs with random failures end in the states that their policies require', {
  timeout: 120_000,
}, async () => {
  const seed = seedOf()
  console.log(`workflows: HOLDFAST_SEED=${seed}`)
  for (let round = 0; round < countOf(3); round++) {
    const url = await databaseUrl()
    await walk(url, await openFleet(url, 2), seed + round, 100)
  }
})

test('random graphs end in the states that their policies require while sessions are terminated', {
  timeout: 120_000,
}, async () => {
  const seed = seedOf()
  console.log(`workflows: HOLDFAST_SEED=${seed}`)
  const url = await databaseUrl()
  const fleet = await openFleet(url, 3, { expiry: '2s' })
  const killer = new Witness(url)
  onTestFinished(() => killer.close())
  await walk(url, fleet, seed, 120, async (at) => {
    if (at % 15 !== 0) return
    for (const pid of await killer.sessions(fleet[1 + (at % 2)]!.id)) await killer.terminate(pid)
  })
})

test.skipIf(withoutPgBouncer)(
  'random graphs end in the states that their policies require through PgBouncer in transaction mode',
  async () => {
    const seed = seedOf()
    console.log(`workflows: HOLDFAST_SEED=${seed}`)
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 12, roundRobin: true })
    await walk(direct, await openFleet(pooler.through(direct), 2, { anchor: 'none' }), seed, 80)
  },
)

test('invalid arguments of workflows throw a UsageError', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const job = defineJob('job', { run: (_: number) => {} })
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(UsageError, async () => call())).message).toContain(message)
  await refused('Expected the `after` option to contain the ids of enqueued jobs, got 1000000', () =>
    jobs.enqueue(job, 1, { after: [1_000_000] }),
  )
  await refused('Expected after to be a list of enqueued jobs or of job ids, got an array', () =>
    jobs.enqueue(job, 1, { after: ['a' as never] }),
  )
  await refused('Expected ifFailed to be "cancel" or "run" or "wait", got "stop"', () =>
    jobs.enqueue(job, 1, { after: [1], ifFailed: 'stop' as never }),
  )
  await refused('Expected a workflow with at least one job, got no jobs', () => jobs.enqueueWorkflow(() => {}))
  await refused('Expected workflow.add to be called inside the function that builds the workflow', async () => {
    let add = () => {}
    await jobs.enqueueWorkflow((workflow) => {
      workflow.add(job, 1)
      add = () => void workflow.add(job, 2)
    })
    add()
  })
})

test('a dependent of a retried job is not cancelled by a late follow-up of the failure', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  const first = await holdfast.jobs.enqueue(job, null)
  const dependent = await holdfast.jobs.enqueue(job, null, { after: [first], ifFailed: 'wait' })
  await until('the dependent waits', async () => (await sql(url, 'select from holdfast.dependency')).length === 1)
  await holdfast.jobs.cancel(first.id)
  const followUps = async () => (await sql(url, 'select from holdfast.follow_up')).length
  await until('the follow-up of the cancellation has run', async () => (await followUps()) === 0)
  // As if the process had died before the follow-up, and the dependent had the default policy.
  await sql(url, "update holdfast.waiting set links = links - 'ifFailed' where id = $1", [dependent.id])
  expect(await holdfast.jobs.retry(first.id)).toBe(true)
  await sql(url, 'insert into holdfast.follow_up (session, ended) values (0, $1)', [
    JSON.stringify([{ id: first.id, state: 'cancelled' }]),
  ])
  work(holdfast, [job])
  await untilState(holdfast, dependent.id, 'done')
})

test('250 jobs that each depend on 250 jobs are admitted and released soon', { timeout: 120_000 }, async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const count = 250
  const job = defineJob('job', { run: () => {} })
  const parents = await holdfast.jobs.enqueueMany(job, new Array(count).fill(null))
  const began = performance.now()
  await holdfast.jobs.enqueueMany(job, new Array(count).fill(null), { after: parents })
  work(holdfast, [defineJob('other', { queue: 'other', run: () => {} })])
  const entering = "select from holdfast.waiting where stage = 'time'"
  await until('all dependencies are recorded', async () => (await sql(url, entering)).length === 0, 30_000)
  const admittedMs = performance.now() - began
  work(holdfast, [job])
  const left = 'select (select count(*) from holdfast.waiting) + (select count(*) from holdfast.job_live) as jobs'
  await until('all jobs are done', async () => (await sql<{ jobs: string }>(url, left))[0]!.jobs === '0', 30_000)
  console.log(`${count} × ${count}: ${Math.round(admittedMs)} ms and ${Math.round(performance.now() - began)} ms`)
  expect(await sql(url, 'select from holdfast.dependency')).toEqual([])
})
