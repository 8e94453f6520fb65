import { type JobDetails, noRates, type ObservedJob } from '../../observe/index.js'
import { readJobSearch } from '../../search/index.js'
import type { Payload, Redact } from '../redact.js'
import { maxRows, view } from '../view.js'
import { logLinesOf } from './log-lines.js'

/** A page is short enough that the numbers of its jobs fit into a search. */
const jobsPerPage = 100

export const jobs = {
  /** Queues with the number of jobs in each state. */
  queues: view({
    intervalMs: 3_000,
    params: { namespace: 'text' },
    async read({ observer: { jobs } }, { namespace }) {
      const { rows, count } = await jobs.queues({ namespace, limit: maxRows })
      const rates = await jobs.rates()
      return { rows: rows.map((row) => ({ ...row, perMinute: rates.get(row.key) ?? noRates })), count }
    },
  }),

  /** One page of the jobs that match a search such as `queue:mail state:failed input.user:42`. */
  jobs: view({
    intervalMs: 2_000,
    params: { namespace: 'text', search: 'text', after: 'text' },
    async read({ observer, redact }, { namespace, search = '', after }) {
      const { rows, ...found } = await observer.jobs.search(readJobSearch(search), {
        namespace,
        limit: jobsPerPage,
        after,
      })
      return { rows: rows.map((job) => withRedactedError(job, redact)), ...found }
    },
  }),

  /** Kinds of jobs that workers have registered. */
  'job-kinds': view({
    intervalMs: 10_000,
    params: { namespace: 'text' },
    read: ({ observer }, { namespace }) => observer.jobKinds.list({ namespace }),
  }),

  /** JSON schema of the input of one kind. Null if no worker has registered the kind. */
  'job-kind': view({
    intervalMs: 10_000,
    needs: { namespace: 'text', queue: 'text', kind: 'text' },
    read: ({ observer }, kind) => observer.jobKinds.find(kind),
  }),

  /** All details about one job. Null if the job does not exist. */
  job: view({
    intervalMs: 2_000,
    needs: { id: 'id' },
    async read({ observer, redact, asMember, traceUrl }, { id }) {
      const job = await observer.jobs.find(id)
      if (!job) return { job: null }
      const isIdle = job.state === 'ready' || job.state === 'waiting'
      const status = isIdle ? await asMember(job.namespace ?? 'default', ({ jobs }) => jobs.find(id)) : null
      return { job: { ...redacted(job, redact), waitsFor: status?.waitsFor ?? null, trace: traceOf(job, traceUrl) } }
    },
  }),
}

/** Returns the trace in which the job was enqueued, with its URL if the dashboard has a template. */
function traceOf({ traceparent }: JobDetails, traceUrl: string | undefined) {
  const id = traceparent?.split('-')[1]
  if (id === undefined) return null
  return { id, url: traceUrl?.replaceAll('{traceId}', encodeURIComponent(id)) ?? null }
}

function withRedactedError({ failureName, failure, meta: _, ...job }: ObservedJob, redact: Redact) {
  if (failureName === null && failure === null) return { ...job, error: null }
  const about = { what: 'job error', of: job.kind } as const
  return { ...job, error: errorDetails(redact({ name: failureName, message: failure }, about)) }
}

function redacted(job: JobDetails, redact: Redact) {
  const about = (what: Payload['what']) => ({ what, of: job.kind })
  // Serialized first, because redact may change the object that it receives.
  const originalInput = JSON.stringify(job.input)
  const input = job.input === undefined ? null : redact(job.input, about('job input'))
  return {
    ...job,
    input,
    meta: Object.keys(job.meta).length > 0 ? redact(job.meta, about('job meta')) : null,
    result: job.result === undefined ? null : redact(job.result, about('job result')),
    isInputShown: job.input !== undefined,
    /** Whether `redact` has changed the input. Such an input must not be enqueued again. */
    isInputRedacted: job.input !== undefined && JSON.stringify(input) !== originalInput,
    isResultShown: job.result !== undefined,
    log: logLinesOf(redact(job.log, about('job log'))),
    error: job.error && errorDetails(redact(job.error, about('job error'))),
    attempts: job.attempts.map(({ name, message, code, stack, ...attempt }) => ({
      ...attempt,
      error: errorDetails(redact({ name, message, code, stack }, about('job error'))),
    })),
  }
}

/** Reads the error fields from a value that `redact` returned. The value can have any type. */
export function errorDetails(made: unknown) {
  if (typeof made !== 'object' || made === null) {
    return { name: '', message: made === undefined ? '' : String(made), code: null, stack: null }
  }
  const text = (of: string) => {
    const value = (made as Record<string, unknown>)[of]
    return typeof value === 'string' ? value : null
  }
  return { name: text('name') ?? '', message: text('message') ?? '', code: text('code'), stack: text('stack') }
}
