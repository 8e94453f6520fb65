// Compares acquire-release pairs with the common libraries: redlock on Redis, and advisory-lock on PostgreSQL.
import { Holdfast } from 'holdfast'
import { loops, type Options, ratio, runRounds, summary } from '../measure.ts'
import { installPeers } from '../peers/install.ts'
import type { PeerLocks } from '../peers/locks.ts'
import { benchRedis, whyNoRedis } from '../peers/redis.ts'
import { type Cell, table } from '../table.ts'

const callers = [1, 64]
const callersOf = (name: string, count: number) => `${name}, ${count} ${count === 1 ? 'caller' : 'callers'}`

export async function peers(url: string, { rounds, roundMs, progress }: Options) {
  installPeers(progress)
  const { openAdvisoryLock, openRedlock } = await import('../peers/locks.ts')
  const absent = whyNoRedis()
  const redis = absent ? undefined : await benchRedis()
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  const others: Record<string, PeerLocks> = {
    'advisory-lock': openAdvisoryLock(url),
    ...(redis && { redlock: openRedlock(redis.url) }),
  }
  const ours = { pair: async (name: string) => (await holdfast.locks.tryAcquire(name))!.release() }
  const contestants = Object.entries({ holdfast: ours, ...others }).flatMap(([name, { pair }]) =>
    callers.map((count) => ({
      name: callersOf(name, count),
      run: (ms: number) => loops(count, ms, (caller) => pair(`peers:${caller}`)),
    })),
  )
  try {
    const outcomes = await runRounds(contestants, {
      rounds,
      roundMs,
      onRound: (round) => progress(`locks: compared with libraries, round ${round + 1} of ${rounds}`),
    })
    return {
      contestants: Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)])),
      ratios: Object.keys(others).flatMap((name) =>
        callers.map((count) => ({
          peer: callersOf(name, count),
          ratio: ratio(outcomes[callersOf('holdfast', count)], outcomes[callersOf(name, count)]),
          goal: name === 'redlock' && count === 64 ? 2.5 : undefined,
        })),
      ),
      absent,
    }
  } finally {
    for (const other of Object.values(others)) other.close()
    await holdfast.close()
    await redis?.close()
  }
}

export function showPeers({ contestants, ratios, absent }: Awaited<ReturnType<typeof peers>>) {
  const rows: Cell[][] = Object.entries(contestants).map(([name, one]) => [name, one.perSecond, one.p50Ms, one.p99Ms])
  if (absent) rows.push([`redlock was not measured: ${absent}`])
  const compared = ratios.map(({ peer, ratio, goal }) => [`holdfast : ${peer}`, ratio, goal && `≥ ${goal}`])
  return [
    table(['Compared with libraries: acquire + release', 'pairs/s', 'p50 ms', 'p99 ms'], rows),
    table(['compared', 'ratio', 'goal'], compared),
  ].join('\n\n')
}
