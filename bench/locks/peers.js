// Pairs of acquire and release beside the libraries that people use: redlock on Redis, and advisory-lock on PostgreSQL.
import { Holdfast } from 'holdfast'
import { inTurns, loops, ratio, summary } from '../measure.js'
import { installPeers } from '../peers/install.js'
import { benchRedis, whyNoRedis } from '../peers/redis.js'
import { table } from '../table.js'

const callers = [1, 64]

export async function peers(url, { rounds, roundMs, progress }) {
  installPeers(progress)
  const { openAdvisoryLock, openRedlock } = await import('../peers/locks.js')
  const absent = whyNoRedis()
  const redis = absent ? undefined : await benchRedis()
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  const others = { 'advisory-lock': openAdvisoryLock(url), ...(redis && { redlock: openRedlock(redis.url) }) }
  const ours = { pair: async (name) => (await holdfast.locks.tryAcquire(name)).release() }
  const contestants = Object.entries({ holdfast: ours, ...others }).flatMap(([name, { pair }]) =>
    callers.map((count) => ({
      name: `${name}, ${count} at once`,
      run: (ms) => loops(count, ms, (caller) => pair(`peers:${caller}`)),
    })),
  )
  try {
    const outcomes = await inTurns(contestants, {
      rounds,
      roundMs,
      onRound: (round) => progress(`locks: beside the peers, round ${round + 1} of ${rounds}`),
    })
    return {
      contestants: Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)])),
      ratios: Object.keys(others).flatMap((name) =>
        callers.map((count) => ({
          peer: `${name}, ${count} at once`,
          ratio: ratio(outcomes[`holdfast, ${count} at once`], outcomes[`${name}, ${count} at once`]),
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

export function showPeers({ contestants, ratios, absent }) {
  const rows = Object.entries(contestants).map(([name, one]) => [name, one.perSecond, one.p50Ms, one.p99Ms])
  if (absent) rows.push([`redlock: not measured, for ${absent}`])
  const compared = ratios.map(({ peer, ratio, goal }) => [`holdfast : ${peer}`, ratio, goal && `≥ ${goal}`])
  return [
    table(['Beside the peers: acquire + release', 'pairs/s', 'p50 ms', 'p99 ms'], rows),
    table(['compared', 'ratio', 'goal'], compared),
  ].join('\n\n')
}
