import type { HoldfastError, LeaseOptions } from 'holdfast'
import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** Acquires one lease. Sometimes extends it, by more or less time than it had. */
export async function step({ holdfast, recordHold, pause, randomWait }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const { options: given, clear } = randomWait(random)
  const options: LeaseOptions & typeof given = { ...given, ttl: random.pick([1_000, 1_500, 2_000]) }
  if (random.chance(0.1)) options.minHold = random.below(60)
  try {
    const tries = random.chance(0.2)
    const name = random.pick(names)
    const lease = await (tries ? holdfast.leases.tryAcquire(name, options) : holdfast.leases.acquire(name, options))
    if (!lease) return
    await recordHold(lease, { schedule, names: [name], lasting: true }, random, async () => {
      await pause(walk, random)
      if (!random.chance(0.2)) return
      await lease.extend(random.pick([1_000, 1_200, 2_000])).catch(isNoLoss)
      await pause(walk, random)
    })
    await lease.release()
    if (random.chance(0.05)) await lease.release()
  } finally {
    clear()
  }
}

function isNoLoss(error: HoldfastError) {
  if (!['LEASE_LOST', 'DATABASE_UNREACHABLE'].includes(error?.code)) throw error
}
