import type { MiddlewareStack } from '../../base/index.js'
import type { Executor } from '../../postgres/index.js'
import type { EnqueueClass, Enqueuing } from '../enqueuing.js'
import type { JobRef } from '../job-ref.js'
import { noMeta, writeMeta } from '../meta.js'
import { writePayload } from '../payload.js'
import type { UniqueEnqueuing } from '../unique.js'
import type { ForeignJob } from './source.js'

/** Serialized job from another library. */
export interface ImportedJob {
  readonly job: ForeignJob
  readonly head: string
  readonly payload: string
  readonly meta: string | undefined
}

interface Enqueuers {
  readonly enqueuing: Enqueuing
  readonly unique: UniqueEnqueuing
  readonly wrap: MiddlewareStack['enqueue']
}

/** Enqueues imported jobs. Skips jobs whose unique key is in use. Returns the enqueued jobs. */
export async function enqueueImported(
  enqueuers: Enqueuers,
  all: readonly ImportedJob[],
  queue: string,
  tx: Executor,
): Promise<ForeignJob[]> {
  const { wrap } = enqueuers
  if (all.length === 0) return []
  const refs = wrap ? await wrapImported(wrap, enqueuers, all, queue, tx) : await writeImported(enqueuers, all, tx)
  return all.flatMap(({ job }, at) => (refs[at]!.isNew ? [job] : []))
}

/** Passes the jobs of one transaction through the middleware. */
function wrapImported(
  wrap: NonNullable<Enqueuers['wrap']>,
  enqueuers: Enqueuers,
  all: readonly ImportedJob[],
  queue: string,
  tx: Executor,
): Promise<readonly JobRef[]> {
  const jobs = all.map(({ job: { kind }, payload }) => ({ kind, queue, input: JSON.parse(payload), meta: noMeta }))
  return wrap(jobs, async (changed) => {
    const written = all.map(({ payload, ...one }, at): ImportedJob => {
      const { input, meta } = changed[at]!
      // An unchanged input keeps its text, which can contain numbers that JavaScript would round.
      const text = input === jobs[at]!.input ? payload : (writePayload(input, 'an input') ?? 'null')
      return { ...one, payload: text, meta: writeMeta(meta) }
    })
    return writeImported(enqueuers, written, tx)
  })
}

async function writeImported(
  { enqueuing, unique }: Enqueuers,
  all: readonly ImportedJob[],
  tx: Executor,
): Promise<JobRef[]> {
  const refs = new Map<ImportedJob, JobRef>()
  const enqueue = async (waits: EnqueueClass, some: readonly ImportedJob[]) => {
    if (some.length === 0) return
    const ids = await enqueuing.each(some, waits, tx)
    for (const [at, one] of some.entries()) refs.set(one, { id: ids[at]!, isNew: true })
  }
  const enqueueUnique = async (some: readonly ImportedJob[]) => {
    if (some.length === 0) return
    const keyed = some.map(({ head, payload, meta, job }) => ({ head: `${head}}`, payload, meta, slot: job.key! }))
    for (const [at, ref] of (await unique.many(keyed, tx)).entries()) refs.set(some[at]!, ref)
  }
  const free = all.filter(({ job }) => job.lane === null)
  const keyless = free.filter(({ job }) => job.key === null)
  await enqueue(
    'ready',
    keyless.filter(({ job }) => job.runAt === null),
  )
  await enqueue(
    'delayed',
    keyless.filter(({ job }) => job.runAt !== null),
  )
  await enqueueUnique(free.filter(({ job }) => job.key !== null))
  // Jobs in a lane must be enqueued in the order of the call, whether they have a unique key or not.
  const inLanes = all.filter(({ job }) => job.lane !== null)
  for (let at = 0, to = 0; at < inLanes.length; at = to) {
    while (to < inLanes.length && inLanes[to]!.job.key === null) to++
    if (to > at) await enqueue('linked', inLanes.slice(at, to))
    else await enqueueUnique(inLanes.slice(at, ++to))
  }
  return all.map((one) => refs.get(one)!)
}
