// Lists the job queues that are compared. An adapter gives each of them the same functions: `enqueue`, `enqueueMany`, `work`, `close`.
import { whyNoPgq } from '../peers/pgq.ts'
import { whyNoRedis } from '../peers/redis.ts'

export interface Payload {
  at?: number
  text?: string
  isEndless?: boolean
  isHot?: boolean
  /** `Date.now()` at the enqueue. If present, the worker process reports how long the job waited. */
  sentAt?: number
}

export type Handle = (payload: Payload) => unknown

export interface BulkOptions {
  delayMs?: number
  /** At most one of a lane's jobs runs at any time. */
  lane?: string
}

export interface Queue {
  /** Resolves when the queue has stored the job. */
  enqueue(payload: Payload): Promise<unknown>
  enqueueMany(payloads: Payload[], options?: BulkOptions): Promise<unknown>
  work(handle: Handle, concurrency?: number, hasLanes?: boolean): Promise<() => Promise<unknown>>
  close(): Promise<unknown>
}

/** Addresses of the servers that store a queue. */
export interface Addresses {
  url: string
  redisUrl?: string | undefined
}

export type How = 'best' | 'defaults'

/** Settings of a queue, for each way of running it. */
export type Settings<One> = Partial<Record<How, One>>

interface Contestant {
  how: How
  onRedis?: boolean
  /** Takes part only in the suite `batches`, which has its own server. */
  onlyBatches?: boolean
  hasNoBulk?: boolean
  hasNoLanes?: boolean
  load(): Promise<{ settings: Settings<object>; open(place: Addresses, how: How): Promise<Queue> }>
}

/** `best` means the fastest settings known for throughput. `defaults` means no options. */
export const contestants: Record<string, Contestant> = {
  holdfast: { how: 'defaults', load: () => import('./holdfast.ts') },
  'holdfast, batch handlers': { how: 'best', onlyBatches: true, load: () => import('./holdfast.ts') },
  PgQ: { how: 'best', onlyBatches: true, load: () => import('../peers/pgq.ts') },
  'graphile-worker': { how: 'best', load: () => import('../peers/graphile-worker.ts') },
  'graphile-worker, defaults': { how: 'defaults', load: () => import('../peers/graphile-worker.ts') },
  'pg-boss': { how: 'best', load: () => import('../peers/pg-boss.ts') },
  'pg-boss, defaults': { how: 'defaults', load: () => import('../peers/pg-boss.ts') },
  DBOS: { how: 'best', hasNoBulk: true, hasNoLanes: true, load: () => import('../peers/dbos.ts') },
  'DBOS, defaults': { how: 'defaults', hasNoBulk: true, hasNoLanes: true, load: () => import('../peers/dbos.ts') },
  'BullMQ on PostgreSQL': { how: 'best', hasNoLanes: true, load: () => import('../peers/bullmq.ts') },
  'BullMQ on Redis': { how: 'best', onRedis: true, hasNoLanes: true, load: () => import('../peers/bullmq.ts') },
  'BullMQ on PostgreSQL, defaults': { how: 'defaults', hasNoLanes: true, load: () => import('../peers/bullmq.ts') },
  'BullMQ on Redis, defaults': {
    how: 'defaults',
    onRedis: true,
    hasNoLanes: true,
    load: () => import('../peers/bullmq.ts'),
  },
  'advisory lock per job': { how: 'best', hasNoLanes: true, load: () => import('./advisory-locks.ts') },
}

export const postgresPeers = ['graphile-worker', 'pg-boss', 'DBOS', 'BullMQ on PostgreSQL', 'advisory lock per job']

/** Returns the contestants that can be measured on this machine, and the reasons why the others cannot. */
export function present(given?: string[]) {
  const missing = { redis: whyNoRedis(), pgq: whyNoPgq() }
  const names: string[] = []
  const absent: Record<string, string> = {}
  for (const [name, { onRedis, onlyBatches = false }] of Object.entries(contestants)) {
    if (given ? !given.includes(name) : onlyBatches) continue
    const why = (onRedis && missing.redis) || (onlyBatches && missing.pgq)
    if (why) absent[name] = why
    else names.push(name)
  }
  return { names, absent }
}

export async function openQueue(name: string, { url, redisUrl }: Addresses) {
  const { how, onRedis, load } = contestants[name]!
  const { open } = await load()
  return open(onRedis ? { url, redisUrl } : { url }, how)
}

/** Lists versions, settings and missing contestants, for the head of a report. */
export async function describeContestants(names: string[], { versions, absent }: DescribeOptions) {
  const settings = await Promise.all(
    names.map(async (name) => {
      const { how, load } = contestants[name]!
      return `  ${name}: ${JSON.stringify((await load()).settings[how])}`
    }),
  )
  return [
    `Versions: ${Object.entries(versions).flat().join(' ')}. Settings (${defaultConcurrency}):`,
    ...settings,
    ...Object.entries(absent).map(([name, why]) => `${name} was not measured: ${why}`),
  ].join('\n')
}

interface DescribeOptions {
  versions: Record<string, string>
  absent: Record<string, string>
}

export const defaultConcurrency =
  'jobs at the same time by default: holdfast 10, graphile-worker 1, pg-boss 1, BullMQ 1, DBOS without limit'
