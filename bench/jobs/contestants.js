// The queues that are compared, each behind the same few functions: `enqueue`, `enqueueMany`, `work`, `close`.
import { whyNoRedis } from '../peers/redis.js'

/**
 * @typedef {object} Queue
 * @property {(payload: object) => Promise<unknown>} enqueue  answers when the job is safe
 * @property {(payloads: object[], options?: { delayMs?: number, lane?: string }) => Promise<unknown>} enqueueMany  at most one
 *   job of a lane runs at once
 * @property {(handle: (payload: object) => unknown, concurrency?: number, hasLanes?: boolean) => Promise<() => Promise<unknown>>} work
 * @property {() => Promise<unknown>} close
 */

/** `how`: `best` is what its own documents advise for throughput; `defaults` is what it does when it is told nothing. */
export const contestants = {
  holdfast: { how: 'defaults', load: () => import('./holdfast.js') },
  'holdfast, advisory claims': { how: 'advisory', load: () => import('./holdfast.js') },
  'graphile-worker': { how: 'best', load: () => import('../peers/graphile-worker.js') },
  'graphile-worker, defaults': { how: 'defaults', load: () => import('../peers/graphile-worker.js') },
  'pg-boss': { how: 'best', load: () => import('../peers/pg-boss.js') },
  'pg-boss, defaults': { how: 'defaults', load: () => import('../peers/pg-boss.js') },
  DBOS: { how: 'best', hasNoBulk: true, hasNoLanes: true, load: () => import('../peers/dbos.js') },
  'DBOS, defaults': { how: 'defaults', hasNoBulk: true, hasNoLanes: true, load: () => import('../peers/dbos.js') },
  'BullMQ on PostgreSQL': { how: 'best', hasNoLanes: true, load: () => import('../peers/bullmq.js') },
  'BullMQ on Redis': { how: 'best', onRedis: true, hasNoLanes: true, load: () => import('../peers/bullmq.js') },
  'BullMQ on PostgreSQL, defaults': { how: 'defaults', hasNoLanes: true, load: () => import('../peers/bullmq.js') },
  'BullMQ on Redis, defaults': {
    how: 'defaults',
    onRedis: true,
    hasNoLanes: true,
    load: () => import('../peers/bullmq.js'),
  },
}

/** Those that can be measured here, and why the others cannot. */
export function present() {
  const why = whyNoRedis()
  const [names, absent] = [[], {}]
  for (const [name, { onRedis }] of Object.entries(contestants)) {
    if (onRedis && why) absent[name] = why
    else names.push(name)
  }
  return { names, absent }
}

/** @returns {Promise<Queue>} */
export async function openQueue(name, { url, redisUrl }) {
  const { how, onRedis, load } = contestants[name]
  const { open } = await load()
  return open(onRedis ? { redisUrl } : { url }, how)
}

/** What it is told, for the table of settings. */
export async function settingsOf(name) {
  const { how, load } = contestants[name]
  return (await load()).settings[how]
}
