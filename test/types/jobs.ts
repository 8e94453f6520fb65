// What compiles and what does not compile in programs that use jobs. `npm run types` checks this file. No test runs it.
import {
  defineJob,
  defineSchedule,
  Holdfast,
  type ImplementedJob,
  implement,
  type JobContext,
  type JobDefinition,
  type JobMeta,
  JobOutcome,
  type JobProgress,
  type JobRef,
  type JobStatus,
  type Schema,
  type ThreadHandler,
  type Transaction,
  type WorkflowBuilder,
} from '../../src/index.js'
import { drain, enqueued } from '../../src/testing/index.js'
import { is } from './is.js'

declare const holdfast: Holdfast
declare const workflow: WorkflowBuilder
declare const context: JobContext
declare const schema: Schema<{ to: string; at: string }, { to: string; at: Date }>
declare const wide: { to?: string }
declare const maybe: { to: string } | undefined
declare const unknownInput: unknown
const { jobs, schedules } = holdfast

const mail = defineJob('mail', { run: ({ to }: { to: string }) => to.length })
const parsed = defineJob('parsed', { input: schema, run: async ({ at }) => at.getTime() })
const cleanUp = defineJob('clean-up', { run: () => 'clean' })

// Without a registered transaction, `tx` is Holdfast's own, and the option is not allowed. See registered/drizzle.ts.
is<Transaction>()(context.tx)
// @ts-expect-error: the type of the transaction is not registered
Holdfast.open({ transaction: async (work: (tx: never) => Promise<void>) => work({} as never) })

// The types of the handler determine the types of the definition.
is<ImplementedJob<{ to: string }, number, { to: string }>>()(mail)
is<ImplementedJob<{ to: string; at: string }, number, { to: string; at: Date }>>()(parsed)
is<ImplementedJob<null, string, null>>()(cleanUp)
is<ImplementedJob<null, void, null>>()(defineJob('x', { run: async () => {} }))
is<ImplementedJob<null, number, null>>()(
  defineJob('x', { run: async (_, { attempt }) => (attempt > 1 ? JobOutcome.cancel() : attempt) }),
)
is<ImplementedJob<{ n: number }, string, { n: number }>>()(
  defineJob<{ n: number }, string>('x', { run: ({ n }) => `${n}` }),
)
defineJob('x', { batch: { size: 10 }, input: schema, run: (all) => all.map(({ input }) => input.at.getTime()) })

// Without a schema and an annotation, a handler has no input.
// @ts-expect-error: the input is null
defineJob('x', { run: (input) => input.to })
// @ts-expect-error: the handler and the schema differ
defineJob('x', { input: schema, run: (input: { to: number }) => input })
// @ts-expect-error: no duration
defineJob('x', { timeout: 'soon', run: () => {} })

// jobs.enqueue
const ref = await jobs.enqueue(mail, { to: 'ada' }, { delay: '10m' })
is<JobRef<number>>()(ref)
is<JobRef<string>>()(await jobs.enqueue(cleanUp))
is<JobRef<string>>()(await jobs.enqueue(cleanUp, null, { delay: '10m' }))
jobs.enqueue(parsed, { to: 'ada', at: '2030-01-01' })
// @ts-expect-error: no input
jobs.enqueue(mail)
// @ts-expect-error: a field is missing
jobs.enqueue(mail, {})
// @ts-expect-error: a field has another type
jobs.enqueue(mail, { to: 7 })
// @ts-expect-error: a field that the definition does not have
jobs.enqueue(mail, { to: 'ada', cc: 'ben' })
// @ts-expect-error: the field may be missing
jobs.enqueue(mail, wide)
// @ts-expect-error: the input may be undefined
jobs.enqueue(mail, maybe)
// @ts-expect-error: null
jobs.enqueue(mail, null)
// @ts-expect-error: undefined
jobs.enqueue(mail, undefined)
// @ts-expect-error: unknown
jobs.enqueue(mail, unknownInput)
// @ts-expect-error: the output of the schema is not its input
jobs.enqueue(parsed, { to: 'ada', at: new Date() })
// @ts-expect-error: the job has no input
jobs.enqueue(cleanUp, {})
// @ts-expect-error: the job has no input
jobs.enqueue(cleanUp, { to: 'ada' })
jobs.enqueue(mail, { to: 'ada' }, { meta: { tags: ['billing'], requestId: 'r-1' } })
// @ts-expect-error: a list is no object
jobs.enqueue(mail, { to: 'ada' }, { meta: ['billing'] })
// @ts-expect-error: a text is no object
jobs.enqueue(mail, { to: 'ada' }, { meta: 'billing' })
is<JobMeta>()(context.meta)
// @ts-expect-error: the type of a value in the meta is unknown
context.meta.requestId satisfies string
// @ts-expect-error: the meta is read-only
context.meta.requestId = 'r-2'
// @ts-expect-error: no option
jobs.enqueue(mail, { to: 'ada' }, { later: true })

// A definition of an unknown kind of job accepts no input, and a definition with a narrower input is not wider.
const some: JobDefinition = mail
// @ts-expect-error: the input is unknown
jobs.enqueue(some, { to: 'ada' })
// @ts-expect-error: `mail` requires the field
export const wider: JobDefinition<{ to?: string }> = mail
export const narrower: JobDefinition<{ to: string; cc: string }> = mail

// A function for jobs of any kind
export function later<Input, Result>(job: JobDefinition<Input, Result>, input: Input): Promise<JobRef<Result>> {
  return jobs.enqueue(job, input, { delay: '1h' })
}

// jobs.enqueueMany
is<JobRef<number>[]>()(await jobs.enqueueMany(mail, [{ to: 'ada' }], { unique: ({ to }) => to }))
jobs.enqueueMany(cleanUp, [null, null])
// @ts-expect-error: a field is missing
jobs.enqueueMany(mail, [{ to: 'ada' }, {}])
// @ts-expect-error: a field that the definition does not have
jobs.enqueueMany(mail, [{ to: 'ada', cc: 'ben' }])
// @ts-expect-error: the field may be missing
jobs.enqueueMany(mail, [wide])
// @ts-expect-error: null
jobs.enqueueMany(mail, [null])
// @ts-expect-error: the job has no input
jobs.enqueueMany(cleanUp, [{ to: 'ada' }])
// @ts-expect-error: the input has no such field
jobs.enqueueMany(mail, [{ to: 'ada' }], { unique: ({ cc }) => cc })

// workflow.add
workflow.add(cleanUp, null, { after: [workflow.add(mail, { to: 'ada' }), workflow.add(cleanUp)] })
// @ts-expect-error: a field is missing
workflow.add(mail, {})
// @ts-expect-error: a field that the definition does not have
workflow.add(mail, { to: 'ada', cc: 'ben' })
// @ts-expect-error: the field may be missing
workflow.add(mail, wide)
// @ts-expect-error: undefined
workflow.add(mail, undefined)
// @ts-expect-error: the job has no input
workflow.add(cleanUp, {})

// job.enqueue in a handler
is<JobRef<number>>()(await context.enqueue(mail, { to: 'ada' }))
is<JobRef<string>>()(await context.enqueue(cleanUp))
// @ts-expect-error: a field is missing
context.enqueue(mail, {})
// @ts-expect-error: a field that the definition does not have
context.enqueue(mail, { to: 'ada', cc: 'ben' })
// @ts-expect-error: the field may be missing
context.enqueue(mail, wide)
// @ts-expect-error: null
context.enqueue(mail, null)
// @ts-expect-error: the job has no input
context.enqueue(cleanUp, {})

// Steps
is<number>()(await context.step('charge', async () => 1))
is<string>()(await context.step('name', ({ signal }) => String(signal.aborted)))
is<undefined>()(await context.step('book', async ({ tx }) => void (await tx.query('select 1'))))
is<JobRef<number>>()(await context.step('child', ({ enqueue }) => enqueue(mail, { to: 'ada' })))
const cursor = await context.cursor('last', 0)
is<number>()(cursor.value)
is<number>()(await cursor.advance(() => cursor.value + 1))
is<void>()(await context.sleep('1d'))
context.sleep(new Date(), { step: 'until then' })
is<{ by: string } | undefined>()(await context.event<{ by: string }>('approved', { within: '7d' }))
is<unknown>()(await context.event('approved', { within: '7d' }))
is<boolean>()(await jobs.send(7, 'approved', { by: 'ada' }, { key: 'request:1' }))
jobs.retry(7, { fromStart: true })
// @ts-expect-error: a value of another type
cursor.advance(() => 'one')
// @ts-expect-error: the value of a cursor changes only through advance
cursor.value = 1
// @ts-expect-error: the option within is missing
context.event('approved')
// @ts-expect-error: no duration
context.sleep('soon')
// @ts-expect-error: no function
context.step('charge', 1)

// Jobs of schedules
schedules.add('nightly', { cron: '0 3 * * *', job: parsed, input: (tick) => ({ to: 'ada', at: tick.toISOString() }) })
defineSchedule('nightly', { cron: '0 3 * * *', job: cleanUp, input: () => null })
// @ts-expect-error: a field is missing
schedules.add('nightly', { every: '1d', job: mail, input: () => ({}) })
// @ts-expect-error: the field may be missing
schedules.add('nightly', { every: '1d', job: mail, input: () => wide })
// @ts-expect-error: null
schedules.add('nightly', { every: '1d', job: mail, input: () => null })
schedules.upsert('tenant:1', { every: '1d', job: mail, input: { to: 'ada' } }) satisfies Promise<
  'created' | 'changed' | 'unchanged'
>
// @ts-expect-error: the input of the job has another type
schedules.upsert('tenant:1', { every: '1d', job: mail, input: { to: 1 } })
// @ts-expect-error: a stored schedule has no functions
schedules.upsert('tenant:1', { every: '1d', job: mail, input: () => ({ to: 'ada' }) })
// @ts-expect-error: a stored schedule has no run that a later tick could replace
schedules.upsert('tenant:1', { every: '1d', job: mail, input: { to: 'ada' }, overlap: 'replace' })
// @ts-expect-error: the output of the schema is not its input
defineSchedule('nightly', { every: '1d', job: parsed, input: (tick) => ({ to: 'ada', at: tick }) })
// @ts-expect-error: the job has no input
defineSchedule('nightly', { every: '1d', job: cleanUp, input: () => ({}) })
// @ts-expect-error: the job has no input
defineSchedule('nightly', { every: '1d', job: cleanUp, input: (tick) => tick })

// jobs.result
is<number>()(await jobs.result(ref, { wait: '10s' }))
is<unknown>()(await jobs.result(7))
// @ts-expect-error: the id of a job does not determine the type of its result
jobs.result<number>(7)
// @ts-expect-error: a job with another result
export const text: JobRef<string> = ref
jobs.enqueue(mail, { to: 'ada' }, { after: [ref, ref.id] })

// Definitions without a handler
const resize = defineJob<{ image: string }, number>('resize', { queue: 'images' })
const report = defineJob('report', { input: schema })
const ping = defineJob('ping')
is<JobDefinition<{ image: string }, number, { image: string }>>()(resize)
is<JobDefinition<{ to: string; at: string }, unknown, { to: string; at: Date }>>()(report)
is<JobDefinition<null, unknown, null>>()(ping)
is<JobRef<number>>()(await jobs.enqueue(resize, { image: 'a.png' }))
jobs.enqueue(ping)
// @ts-expect-error: a field is missing
jobs.enqueue(resize, {})
// @ts-expect-error: the job has no input
jobs.enqueue(ping, {})
// @ts-expect-error: the definition has no handler
jobs.work([mail, resize])
// @ts-expect-error: the definition has no handler
drain(holdfast, [resize])

// implement
const service = { resize: async (image: string, _signal: AbortSignal) => image.length }
const images = implement(resize, ({ image }, job) => service.resize(image, job.signal))
const reports = implement(report, ({ at }) => at.getTime())
is<ImplementedJob<{ image: string }, number, { image: string }>>()(images)
is<ImplementedJob<{ to: string; at: string }, number, { to: string; at: Date }>>()(reports)
is<ImplementedJob<null, void, null>>()(implement(ping, () => {}))
is<ImplementedJob<{ image: string }, number, { image: string }>>()(
  implement(resize, { batch: { size: 10 } }, (all) => all.map(({ input }) => input.image.length)),
)
jobs.work([images, reports, implement(ping, () => {}), implement(mail, () => 0)])
drain(holdfast, [images])
// @ts-expect-error: the definition has another input
implement(resize, (input: { image: number }) => input.image)
// @ts-expect-error: the definition has another result
implement(resize, ({ image }) => image)
// @ts-expect-error: the definition has no input
implement(ping, (input) => input.to)

is<{ image: string }>()((await enqueued(holdfast, resize))[0]!.input)
is<unknown>()((await enqueued(holdfast))[0]!.input)

// A handler in a thread has the types of its definition, and a smaller context.
const threads = { module: new URL('./resize.js', 'file:///') }
const resizeInThread = defineJob<{ image: string }, number>('resize', { threads, timeout: '1m' })
is<ImplementedJob<{ image: string }, number, { image: string }>>()(resizeInThread)
const parsedInThread = implement(defineJob('parsed', { input: schema }), {
  threads: { ...threads, export: 'run', max: 2 },
})
export const handler: ThreadHandler<typeof resizeInThread> = ({ image }, { signal }) =>
  signal.aborted ? 0 : image.length
export const parsedHandler: ThreadHandler<typeof parsedInThread> = async ({ at }) => at.getTime()
export const outcome: ThreadHandler<typeof resizeInThread> = () => JobOutcome.retryAfter('1s')
// @ts-expect-error: the result is a number
export const wrongResult: ThreadHandler<typeof resizeInThread> = ({ image }) => image
// @ts-expect-error: a thread has no transaction
export const wrongContext: ThreadHandler<typeof resizeInThread> = async (_, { tx }) => Number(tx)
jobs.enqueue(resizeInThread, { image: 'a.png' })
// @ts-expect-error: the module exports the handler
defineJob('x', { threads, run: () => 1 })
// @ts-expect-error: a thread runs one job at a time
defineJob('x', { threads, batch: { size: 2 }, run: () => undefined })

// jobs.update: an input needs its definition, which determines its type.
jobs.update(1, { priority: 2, runAt: new Date(), startBy: '1h', meta: { a: 1 } })
jobs.update(1, { definition: mail, input: { to: 'ada' }, delay: '1h' })
jobs.update(1, { definition: parsed, input: { to: 'ada', at: '2030' } })
// @ts-expect-error: the input of another kind
jobs.update(1, { definition: mail, input: { from: 'ada' } })
// @ts-expect-error: no definition
jobs.update(1, { input: { to: 'ada' } })
// @ts-expect-error: a transaction would stop all claims on the queue
jobs.update(1, { priority: 1, tx: {} })

// Lists, filters and watches.
jobs.list({ queue: 'mail', state: ['waiting', 'expired'], search: 'since:1h', limit: 10 })
// @ts-expect-error: the state of a failed job is buried
jobs.list({ state: 'failed' })
is<Promise<number>>()(jobs.cancelMany({ kind: 'mail' }, { reason: 'withdrawn' }))
is<AsyncGenerator<JobStatus, void>>()(jobs.watch(1))

// Options of a single job, and backoff functions of definitions.
jobs.enqueue(mail, { to: 'ada' }, { startBy: '10m', timeout: '5m', retry: { attempts: 2, backoff: '1s' } })
// @ts-expect-error: a function cannot be stored with the job
jobs.enqueue(mail, { to: 'ada' }, { retry: { backoff: () => 1 } })
defineJob('x', {
  keep: '30d',
  retry: { backoff: (failures, error) => (error instanceof TypeError ? '1h' : failures * 10) },
  run: () => {},
})
// @ts-expect-error: the function returns no duration
defineJob('x', { retry: { backoff: () => 'soon' }, run: () => {} })
is<number | Readonly<Record<string, unknown>>>()(1 as JobProgress)
context.progress({ done: 1, total: 2 })
// @ts-expect-error: neither a number nor an object
context.progress('half')
