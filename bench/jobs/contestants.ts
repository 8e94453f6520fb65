// The queues that are compared, each behind the same few functions: `enqueue`, `enqueueMany`, `work`, `close`.
import { whyNoRedis } from '../peers/redis.ts'

export interface Payload {
  at?: number
  text?: string
  isEndless?: boolean
  isHot?: boolean
}

export type Handle = (payload: Payload) => unknown

export interface Many {
  delayMs?: number
  /** At most one job of a lane runs at once. */
  lane?: string
}

export interface Queue {
  /** Answers when the job is safe. */
  enqueue(payload: Payload): Promise<unknown>
  enqueueMany(payloads: Payload[], options?: Many): Promise<unknown>
  work(handle: Handle, concurrency?: number, hasLanes?: boolean): Promise<() => Promise<unknown>>
  close(): Promise<unknown>
}

/** Where a queue is. */
export interface Place {
  url: string
  redisUrl?: string | undefined
}

export type How = 'best' | 'defaults'

/** What a queue is told, by how. */
export type Settings<One> = Partial<Record<How, One>>

interface Contestant {
  how: How
  onRedis?: boolean
  hasNoBulk?: boolean
  hasNoLanes?: boolean
  load(): Promise<{ settings: Settings<object>; open(place: Place, how: How): Promise<Queue> }>
}

/** `how`: `best` is what its own documents advise for throughput; `defaults` is what it does when it is told nothing. */
export const contestants: Record<string, Contestant> = {
  holdfast: { how: 'defaults', load: () => import('./holdfast.ts') },
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
}

/** Those that can be measured here, and why the others cannot. */
export function present() {
  const why = whyNoRedis()
  const names: string[] = []
  const absent: Record<string, string> = {}
  for (const [name, { onRedis }] of Object.entries(contestants)) {
    if (onRedis && why) absent[name] = why
    else names.push(name)
  }
  return { names, absent }
}

export async function openQueue(name: string, { url, redisUrl }: Place) {
  const { how, onRedis, load } = contestants[name]!
  const { open } = await load()
  return open(onRedis ? { url, redisUrl } : { url }, how)
}

/** What it is told, for the table of settings. */
export async function settingsOf(name: string) {
  const { how, load } = contestants[name]!
  return (await load()).settings[how]
}
