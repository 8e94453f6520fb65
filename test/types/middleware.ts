// What compiles and what does not compile in programs with middleware. `npm run types` checks this file. No test runs it.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Holdfast, type JobMeta, type Middleware, type RunCall } from '../../src/index.js'
import { is } from './is.js'

const tenant = new AsyncLocalStorage<string>()

// The types of the parameters follow from `Middleware`.
export const both: Middleware = {
  enqueue: async ({ jobs }, next) => {
    is<string | undefined>()(jobs[0]?.queue)
    is<JobMeta | undefined>()(jobs[0]?.meta)
    const [ref] = await next(jobs.map(({ input, meta }) => ({ input: { input }, meta: { ...meta, tenant: 'a' } })))
    is<number | undefined>()(ref?.id)
  },
  run: async (call, next) => {
    is<RunCall>()(call)
    if (call.type === 'job') return next({ input: call.input ?? call.meta.input })
    is<string>()(call.type === 'schedule' ? call.name : call.key)
    return next()
  },
}
await Holdfast.open({
  middleware: [both, { run: (_, next) => tenant.run('a', next) }, { enqueue: (_, next) => next() }],
})

export const wrong: Middleware[] = [
  // @ts-expect-error: the functions are called enqueue and run
  { runs: (_: RunCall, next: () => Promise<unknown>) => next() },
  // @ts-expect-error: no promise
  { run: () => 'done' },
  // @ts-expect-error: no list of changes
  { enqueue: (_, next) => next({ meta: {} }) },
  // @ts-expect-error: the meta of a job is an object
  { enqueue: ({ jobs }, next) => next(jobs.map(() => ({ meta: ['billing'] }))) },
  // @ts-expect-error: the kind of a job does not change
  { enqueue: ({ jobs }, next) => next(jobs.map(() => ({ kind: 'other' }))) },
  // @ts-expect-error: run changes the input only
  { run: (_, next) => next({ meta: {} }) },
  // @ts-expect-error: only jobs have an input
  { run: (call, next) => next({ input: call.input }) },
]
// @ts-expect-error: the jobs of a call are read-only
export const mutating: Middleware = { enqueue: ({ jobs }, next) => next(jobs.splice(0)) }
// @ts-expect-error: a list
Holdfast.open({ middleware: both })
