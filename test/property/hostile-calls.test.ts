// Wrong and hostile values as arguments of every public call. A wrong value is refused with a typed error, and a value that throws when it is read
// ends its own call and nothing else. The list of calls is generated from the API reference, so a new call without an entry in the table fails.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { describe, errorLine } from '../../src/base/index.js'
import {
  type Assignment,
  type Campaign,
  type Duration,
  defineBudget,
  defineJob,
  defineSchedule,
  type EventOptions,
  Holdfast,
  HoldfastError,
  implement,
  type JobContext,
  JobOutcome,
  JobSuspendedError,
  type Lease,
  type Lock,
  ResultTimeoutError,
  type Schedule,
  type Worker,
  type WorkflowBuilder,
} from '../../src/index.js'
import { freshDatabase } from '../setup/database.js'
import { sqlSession, within } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { hostile } from './hostile.ts'
import { randomFrom } from './random.ts'
import { seedOf } from './seed.js'

const random = randomFrom(seedOf('hostile arguments'))

/** Values of wrong types and sizes that can be read without an error. */
const wrongValues: readonly unknown[] = [
  undefined,
  null,
  Number.NaN,
  -1,
  1.5,
  2 ** 53,
  '',
  'a\0b\uD800',
  'x'.repeat(100_000),
  true,
  7n,
  Symbol('x'),
  () => {},
  {},
  [],
  new Date(Number.NaN),
  { unknown: 1 },
]

/** Pages of the reference, and the classes and interfaces whose methods a user calls. Programs implement or only receive the other ones. */
const pages: Record<string, readonly string[]> = {
  holdfast: ['Holdfast'],
  locks: ['Locks', 'Lock', 'KeySpace'],
  leases: ['Leases', 'Lease'],
  elections: ['Elections', 'Campaign'],
  limits: ['Limits'],
  once: ['Once'],
  shares: ['Shares', 'Assignment'],
  schedules: ['Schedules', 'Schedule', 'ScheduleRun'],
  jobs: ['Jobs', 'JobContext', 'JobCursor', 'JobOutcome', 'WorkflowBuilder', 'Worker', 'Budget'],
}

function publicCalls(): string[] {
  const calls: string[] = []
  for (const [page, types] of Object.entries(pages)) {
    const text = readFileSync(new URL(`../../docs/reference/api/${page}.md`, import.meta.url), 'utf8')
    for (const [, type, body] of text.matchAll(/^(?:abstract )?(?:class|interface) (\w+)[^{\n]*\{\n(.*?)\n\}/gms)) {
      if (!types.includes(type!)) continue
      for (const [, name] of body!.matchAll(/^ {2}(?:static )?(\w+)(?:<[^(\n]*>)?\(/gm)) calls.push(`${type}.${name}`)
    }
    for (const [, name] of text.matchAll(/^function (\w+)[(<]/gm)) calls.push(name!)
  }
  return [...new Set(calls)].sort()
}

let url: string
let holdfast: Holdfast
let drop: () => Promise<void>
const unhandled: unknown[] = []
const record = (error: unknown) => unhandled.push(error)

beforeAll(async () => {
  const database = await freshDatabase()
  url = database.url
  drop = database.drop
  holdfast = await Holdfast.open({ url, log: false })
})
afterAll(async () => {
  await within(10_000, 'Closing', holdfast.close())
  await drop()
})
beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', record)
  process.on('uncaughtException', record)
  return async () => {
    // Node.js reports an unhandled rejection after the microtasks of its turn.
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.off('unhandledRejection', record)
    process.off('uncaughtException', record)
    expect(unhandled.map((error) => errorLine(error))).toEqual([])
  }
})

interface PublicCall {
  /** Valid arguments. Each argument, and each option in an argument, is replaced by a wrong or a hostile value. */
  args: readonly unknown[]
  call(...args: never[]): unknown
}

const fn = () => {}
const job = defineJob('hostile', { run: fn })
const signal = new AbortController().signal
let count = 0
const fresh = () => `fresh ${++count}`

/** Makes a handle, uses it, and gives it back. */
async function during<Handle>(made: Promise<Handle> | Handle, call: (handle: Handle) => unknown): Promise<void> {
  const handle = await made
  const { release, close } = handle as { release?(): unknown; close?(): unknown }
  try {
    await call(handle)
  } finally {
    await (release ? release.call(handle) : close?.call(handle))
  }
}

/** Gives back what a call has returned, if it is a handle. */
const released = (made: Promise<unknown> | unknown) => during(made, fn as never).catch((error) => Promise.reject(error))

/** Runs the function in a transaction, which is rolled back. */
async function inTransaction(call: (client: never) => unknown): Promise<void> {
  const client = await sqlSession(url)
  try {
    await client.query('begin')
    await call(client as never)
  } finally {
    await client.end()
  }
}

/** Runs the function in a job. Throws its error. */
async function inJob(call: (context: JobContext) => unknown): Promise<void> {
  let failure: unknown
  const kind = fresh()
  const one = defineJob(kind, {
    queue: kind,
    retry: { attempts: 1 },
    run: async (_: null, context) => {
      try {
        await call(context)
      } catch (error) {
        if (error instanceof JobSuspendedError) throw error
        failure = error
      }
    },
  })
  const worker = holdfast.jobs.work([one], { queues: [kind] })
  try {
    await holdfast.jobs.result((await holdfast.jobs.enqueue(one)).id, { wait: '300ms' }).catch((error) => {
      if (!(error instanceof ResultTimeoutError)) throw error
    })
  } finally {
    await worker.close()
  }
  if (failure !== undefined) throw failure
}

const lock = { mode: 'exclusive', signal, wait: 0 }
const lease = { minHold: 0, signal, spread: 0, token: 'mine', ttl: '1s', wait: 0 }
const permit = { max: 3, signal, wait: 0, weight: 1 }
const rule = { cron: '0 0 1 1 *', timezone: 'UTC' }
const once = { retain: '1h', wait: 0, failures: 'free', fingerprint: 'x', signal }
const schedule = {
  ...rule,
  crashed: 'rerun',
  missed: { all: 2 },
  overlap: 'skip',
  spread: 0,
  sticky: false,
  timeout: '1s',
}
const enqueue = {
  ...{
    after: [],
    budgets: [defineBudget('b', { max: 1 })],
    delay: 0,
    group: { name: 'g', weight: 1 },
    ifFailed: 'run',
    lane: 'l',
  },
  ...{
    meta: {},
    priority: 1,
    retry: { attempts: 1, backoff: 1 },
    runAt: undefined,
    startBy: '1h',
    timeout: '1s',
    tx: undefined,
  },
  unique: { key: 'k', until: 'done' },
}

/** Every public call. The functions have the parameters of the calls, without their types. */
const table = (holdfast: Holdfast, id: number, done: number): Record<string, PublicCall> => {
  // biome-ignore lint/suspicious/noExplicitAny: the test passes values of wrong types
  const { locks, leases, elections, limits, once: onces, shares, schedules, jobs } = holdfast as any
  return {
    'Holdfast.open': {
      args: [
        {
          url: 'postgres://127.0.0.1:1/x',
          expiry: '5s',
          schema: 'holdfast',
          namespace: 'x',
          migrate: false,
          anchor: 'none',
          name: 'x',
          log: false,
        },
      ],
      call: (options) => Holdfast.open(options),
    },
    'Holdfast.on': { args: ['job.done', fn], call: (name, listener) => holdfast.on(name, listener)() },
    'Holdfast.health': { args: [], call: () => holdfast.health() },
    'Holdfast.doctor': { args: [{ fix: false }], call: (options) => holdfast.doctor(options) },
    'Holdfast.drain': {
      args: [{ timeout: '1s' }],
      call: async (options) =>
        during(Holdfast.open({ url, anchor: 'none', log: false }), (other) => other.drain(options)),
    },
    'Holdfast.close': {
      args: [],
      call: async () => (await Holdfast.open({ url, anchor: 'none', log: false })).close(),
    },
    'Locks.acquire': { args: ['hostile', lock], call: (...args) => released(locks.acquire(...args)) },
    'Locks.tryAcquire': {
      args: [['a', 'b'], lock],
      call: async (...args) => released((await locks.tryAcquire(...args)) ?? {}),
    },
    'Locks.with': { args: ['hostile', lock, fn], call: (...args) => locks.with(...args) },
    'Locks.inTransaction': {
      args: [undefined, 'hostile', { mode: 'shared', wait: 0 }],
      call: (_client, ...args) => inTransaction((client) => locks.inTransaction(_client ?? client, ...args)),
    },
    'Locks.tryInTransaction': {
      args: [undefined, 'hostile', { mode: 'shared' }],
      call: (_client, ...args) => inTransaction((client) => locks.tryInTransaction(_client ?? client, ...args)),
    },
    'Locks.key': { args: ['hostile'], call: (name) => locks.key(name) },
    'Locks.pair': { args: [1, 2], call: (...args) => locks.pair(...args) },
    'Locks.space': { args: ['hostile'], call: (name) => locks.space(name) },
    'KeySpace.at': { args: [1], call: async (number) => (await locks.space('hostile')).at(number) },
    'Lock.guard': {
      args: [undefined],
      call: (tx) =>
        during(locks.acquire(fresh()), (handle: Lock) => inTransaction((client) => handle.guard(tx ?? client))),
    },
    'Leases.acquire': { args: ['hostile lease', lease], call: (...args) => released(leases.acquire(...args)) },
    'Leases.tryAcquire': {
      args: ['hostile lease', lease],
      call: async (...args) => released((await leases.tryAcquire(...args)) ?? {}),
    },
    'Leases.with': { args: ['hostile lease', lease, fn], call: (...args) => leases.with(...args) },
    'Leases.release': { args: ['hostile lease', 'mine'], call: (...args) => leases.release(...args) },
    'Lease.extend': {
      args: ['1s'],
      call: (ttl) => during(leases.acquire(fresh()), (handle: Lease) => handle.extend(ttl)),
    },
    'Lease.guard': {
      args: [undefined],
      call: (tx) =>
        during(leases.acquire(fresh()), (handle: Lease) => inTransaction((client) => handle.guard(tx ?? client))),
    },
    'Elections.campaign': {
      args: ['hostile', { eligible: () => true, preferred: true }, fn],
      call: (...args) => released(elections.campaign(...args)),
    },
    'Elections.leader': { args: ['hostile'], call: (name) => elections.leader(name) },
    'Elections.watch': {
      args: ['hostile', { signal }],
      call: async (...args) =>
        elections
          .watch(...args)
          [Symbol.asyncIterator]()
          .return?.(),
    },
    'Campaign.close': { args: [], call: () => elections.campaign(fresh(), fn).close() },
    'Campaign.ready': {
      args: [],
      call: () => during(elections.campaign(fresh(), fn), (campaign: Campaign) => campaign.ready()),
    },
    'Campaign.stepDown': {
      args: [],
      call: () => during(elections.campaign(fresh(), fn), (campaign: Campaign) => campaign.stepDown()),
    },
    'Limits.acquire': { args: ['hostile', permit], call: (...args) => released(limits.acquire(...args)) },
    'Limits.tryAcquire': {
      args: ['hostile', permit],
      call: async (...args) => released((await limits.tryAcquire(...args)) ?? {}),
    },
    'Limits.with': { args: ['hostile', permit, fn], call: (...args) => limits.with(...args) },
    'Limits.consume': {
      args: ['hostile rate', { rate: '1000/s', burst: 1000, cost: 1, signal, wait: 0 }],
      call: (...args) => limits.consume(...args),
    },
    'Limits.usage': { args: ['hostile'], call: (name) => limits.usage(name) },
    'Once.run': { args: ['hostile', once, fn], call: (...args) => onces.run(...args) },
    'Once.inTransaction': {
      args: [undefined, 'hostile tx', { retain: '1h', wait: 0 }, fn],
      call: (_client, ...args) => inTransaction((client) => onces.inTransaction(_client ?? client, ...args)),
    },
    'Once.forget': { args: ['hostile'], call: (key) => onces.forget(key) },
    'Shares.assign': { args: ['hostile', ['a'], fn], call: (...args) => released(shares.assign(...args)) },
    'Shares.each': {
      args: [
        'hostile each',
        ['a', 'b'],
        { concurrency: 1, round: 'r', signal, waitForOthers: false, window: '1h' },
        fn,
      ],
      call: (...args) => shares.each(...args),
    },
    'Assignment.close': { args: [], call: () => shares.assign(fresh(), ['a'], fn).close() },
    'Assignment.ready': {
      args: [],
      call: () => during(shares.assign(fresh(), ['a'], fn), (one: Assignment) => one.ready()),
    },
    'Assignment.update': {
      args: [['a', 'b']],
      call: (resources) => during(shares.assign(fresh(), ['a'], fn), (one: Assignment) => one.update(resources)),
    },
    'Schedules.add': { args: ['hostile', schedule, fn], call: (...args) => released(schedules.add(...args)) },
    'Schedules.find': { args: ['hostile'], call: (name) => schedules.find(name) },
    'Schedules.list': {
      args: [{ search: 'x', limit: 1, after: undefined }],
      call: (options) => schedules.list(options),
    },
    'Schedules.override': { args: ['stored', rule], call: (...args) => schedules.override(...args) },
    'Schedules.pause': { args: ['stored'], call: (name) => schedules.pause(name) },
    'Schedules.resume': { args: ['stored'], call: (name) => schedules.resume(name) },
    'Schedules.remove': { args: ['removed'], call: (name) => schedules.remove(name) },
    'Schedules.run': { args: ['stored'], call: (name) => schedules.run(name) },
    'Schedules.runs': {
      args: ['stored', { limit: 1, before: new Date(), skipped: true }],
      call: (...args) => schedules.runs(...args),
    },
    'Schedules.upsert': {
      args: ['stored', { ...rule, job, input: null, missed: 'skip', overlap: 'allow', priority: 1 }],
      call: (...args) => schedules.upsert(...args),
    },
    'Schedule.close': { args: [{ stop: true }], call: (options) => schedules.add(fresh(), rule, fn).close(options) },
    'Schedule.ready': {
      args: [],
      call: () => during(schedules.add(fresh(), rule, fn), (one: Schedule) => one.ready()),
    },
    'ScheduleRun.log': { args: ['text', {}], call: fn },
    'Jobs.enqueue': { args: [job, null, enqueue], call: (...args) => jobs.enqueue(...args) },
    'Jobs.enqueueMany': {
      args: [job, [null], { ...enqueue, unique: () => 'k' }],
      call: (...args) => jobs.enqueueMany(...args),
    },
    'Jobs.enqueueWorkflow': {
      args: [{ tx: undefined, meta: {} }, (workflow: WorkflowBuilder) => void workflow.add(job)],
      call: (...args) => jobs.enqueueWorkflow(...args),
    },
    'WorkflowBuilder.add': {
      args: [job, null, { after: [], delay: 0, priority: 1, lane: 'l' }],
      call: (...args) =>
        jobs.enqueueWorkflow((workflow: WorkflowBuilder) => void workflow.add(...(args as unknown as [typeof job]))),
    },
    'Jobs.importFrom': { args: ['pg-boss', { queues: {}, batch: 1 }], call: (...args) => jobs.importFrom(...args) },
    'Jobs.work': {
      args: [[defineJob('other', { queue: 'other', run: fn })], { concurrency: 1, queues: ['other'] }],
      call: (...args) => released(jobs.work(...args)),
    },
    'Jobs.workflow': { args: [id], call: (one) => jobs.workflow(one) },
    'Jobs.cancel': { args: [id, 'why'], call: (...args) => jobs.cancel(...args) },
    'Jobs.cancelMany': {
      args: [{ kind: 'none', queue: 'none', search: 'state:ready', state: 'ready' }, { reason: 'why' }],
      call: (...args) => jobs.cancelMany(...args),
    },
    'Jobs.retry': { args: [id, { fromStart: true }], call: (...args) => jobs.retry(...args) },
    'Jobs.retryMany': {
      args: [{ kind: 'none', queue: 'none', search: 'state:failed', state: 'failed' }],
      call: (filter) => jobs.retryMany(filter),
    },
    'Jobs.update': {
      args: [id, { delay: 0, meta: {}, priority: 1, input: null, job }],
      call: (...args) => jobs.update(...args),
    },
    'Jobs.list': {
      args: [{ kind: 'none', queue: 'none', search: '', state: ['ready'], after: undefined, limit: 1 }],
      call: (options) => jobs.list(options),
    },
    'Jobs.queues': { args: [], call: () => jobs.queues() },
    'Jobs.watch': {
      args: [id, { signal }],
      call: async (...args) =>
        jobs
          .watch(...args)
          [Symbol.asyncIterator]()
          .return?.(),
    },
    'Jobs.send': { args: [id, 'event', {}, { tx: undefined }], call: (...args) => jobs.send(...args) },
    'Jobs.find': { args: [id], call: (one) => jobs.find(one) },
    'Jobs.result': { args: [done, { signal, wait: 0 }], call: (...args) => jobs.result(...args) },
    'Jobs.pause': { args: ['paused'], call: (queue) => jobs.pause(queue) },
    'Jobs.resume': { args: ['paused'], call: (queue) => jobs.resume(queue) },
    'Jobs.redrive': { args: ['none'], call: (queue) => jobs.redrive(queue) },
    'Worker.close': {
      args: [{ timeout: '1s' }],
      call: (options) => jobs.work([defineJob('w', { queue: 'w', run: fn })]).close(options),
    },
    'Worker.ready': {
      args: [],
      call: () => during(jobs.work([defineJob('w', { queue: 'w', run: fn })]), (worker: Worker) => worker.ready()),
    },
    'JobContext.cursor': {
      args: ['c', 0],
      call: (...args) => inJob((context) => context.cursor(...(args as unknown as [string, number]))),
    },
    'JobContext.enqueue': {
      args: [job, null, { priority: 1, delay: 0 }],
      call: (...args) => inJob((context) => context.enqueue(...(args as unknown as [typeof job]))),
    },
    'JobContext.event': {
      args: ['e', { within: '1s', step: 's' }],
      call: (...args) => inJob((context) => context.event(...(args as unknown as [string, EventOptions]))),
    },
    'JobContext.log': {
      args: ['text', {}],
      call: (...args) => inJob((context) => context.log(...(args as unknown as [string]))),
    },
    'JobContext.parents': { args: [], call: () => inJob((context) => context.parents()) },
    'JobContext.progress': {
      args: [{ done: 1, total: 2 }],
      call: (value) => inJob((context) => context.progress(value)),
    },
    'JobContext.sleep': {
      args: ['10ms', { step: 's' }],
      call: (...args) => inJob((context) => context.sleep(...(args as unknown as [Duration]))),
    },
    'JobContext.step': {
      args: ['s', fn],
      call: (...args) => inJob((context) => context.step(...(args as unknown as [string, () => void]))),
    },
    'JobCursor.advance': {
      args: [() => 1],
      call: (work) => inJob(async (context) => (await context.cursor('c', 0)).advance(work)),
    },
    'JobOutcome.cancel': { args: ['why'], call: (reason) => JobOutcome.cancel(reason) },
    'JobOutcome.discard': { args: ['why'], call: (reason) => JobOutcome.discard(reason) },
    'JobOutcome.retryAfter': { args: ['1s'], call: (delay) => JobOutcome.retryAfter(delay) },
    'Budget.of': { args: ['key'], call: (key) => defineBudget('b', { max: 1 }).of(key) },
    defineJob: {
      args: [
        'kind',
        {
          run: fn,
          retry: { attempts: 1, backoff: 1 },
          timeout: '1s',
          queue: 'q',
          keep: '30d',
          batch: { size: 2, wait: 0 },
          budgets: [],
        },
      ],
      call: (...args) => defineJob(...(args as unknown as [string, { run(): void }])),
    },
    defineBudget: {
      args: ['b', { max: 1, rate: '1/s' }],
      call: (...args) => defineBudget(...(args as unknown as [string, { max: number }])),
    },
    defineSchedule: {
      args: ['s', schedule, fn],
      call: (...args) => (defineSchedule as (...all: never[]) => unknown)(...args),
    },
    implement: {
      args: [defineJob('declared'), fn],
      call: (...args) => (implement as (...all: never[]) => unknown)(...args),
    },
  }
}

/** Returns the arguments with one argument, or one option in an argument, replaced by the value. */
function variantsOf(args: readonly unknown[], make: () => unknown): { where: string; args: unknown[] }[] {
  return args.flatMap((argument, place) => {
    const isObject =
      typeof argument === 'object' && argument !== null && Object.getPrototypeOf(argument) === Object.prototype
    // A definition is made by defineJob, so its members are not options.
    const options = isObject && !('kind' in argument && 'run' in argument) ? Object.keys(argument) : []
    return [
      { where: `argument ${place}`, args: args.with(place, make()) },
      ...options.map((key) => ({
        where: `option ${key}`,
        args: args.with(place, { ...(argument as object), [key]: make() }),
      })),
    ]
  })
}

const isTyped = (error: unknown) => error instanceof HoldfastError

test('the table of public calls has every call of the reference', () => {
  expect(Object.keys(table(holdfast, 1, 2)).sort()).toEqual(publicCalls())
})

/** Calls that open an instance or run a job for each value. */
const opens = new Set(publicCalls().filter((name) => /^(JobContext|JobCursor)\.|^Holdfast\.(drain|open)$/.test(name)))

test('a huge list without elements is refused immediately', { timeout: 60_000 }, async () => {
  const { id } = await holdfast.jobs.enqueue(job)
  await holdfast.jobs.cancel(id)
  const slow: string[] = []
  for (const [name, { args, call }] of Object.entries(table(holdfast, id, id))) {
    if (opens.has(name) && !runsAll) continue
    for (const { where, args: given } of variantsOf(args, () => new Array(2 ** 32 - 1))) {
      const before = process.cpuUsage()
      await within(15_000, `${name}, ${where}`, (async () => call(...(given as never[])))().then(fn, fn))
      const { user } = process.cpuUsage(before)
      if (user > 5_000_000) slow.push(`${name}, ${where}: ${user / 1e6} s`)
    }
  }
  expect(slow).toEqual([])
  await expect(async () => holdfast.locks.acquire(new Array(4) as string[])).rejects.toThrow(
    'Expected at least one name, got an array with a hole',
  )
})

test('every public call refuses a wrong value with a typed error, or works', { timeout: 240_000 }, async () => {
  const { id } = await holdfast.jobs.enqueue(job)
  const ended = await holdfast.jobs.enqueue(job)
  await holdfast.jobs.cancel(ended.id)
  const failures: string[] = []
  for (const [name, { args, call }] of Object.entries(table(holdfast, id, ended.id))) {
    await within(15_000, `${name} with valid arguments`, (async () => call(...(args as never[])))()).catch((error) => {
      if (!isTyped(error)) failures.push(`${name} with valid arguments: ${errorLine(error)}`)
    })
    // A few values for each argument are enough for each commit.
    const values = runsAll ? wrongValues : wrongValues.filter(() => random.chance(opens.has(name) ? 0.03 : 0.15))
    const variants = values.flatMap((value) => variantsOf(args, () => value).map((one) => ({ ...one, value })))
    await Promise.all(
      variants.map(async ({ where, args, value }) => {
        try {
          await within(15_000, 'The call', (async () => call(...(args as never[])))())
        } catch (error) {
          if (!isTyped(error)) failures.push(`${name}, ${where}, ${describe(value)}: ${errorLine(error).slice(0, 200)}`)
        }
      }),
    )
  }
  expect(failures).toEqual([])
  expect((await holdfast.health()).status).toBe('up')
})

test('a value that throws when it is read ends only its own call', { timeout: 240_000 }, async () => {
  const { id } = await holdfast.jobs.enqueue(job)
  const ended = await holdfast.jobs.enqueue(job)
  await holdfast.jobs.cancel(ended.id)
  for (const [name, { args, call }] of Object.entries(table(holdfast, id, ended.id))) {
    if (opens.has(name) && !runsAll) continue
    const variants = variantsOf(args, () => hostile(random).make()).filter(() => runsAll || random.chance(0.3))
    for (const { where, args } of variants) {
      await within(15_000, `${name}, ${where}`, (async () => call(...(args as never[])))().then(fn, fn))
    }
  }
  expect((await holdfast.health()).status).toBe('up')
})
