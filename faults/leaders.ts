// Changes the leader of a Patroni cluster again and again: most changes are switchovers, and every sixth leader is killed.
import { setTimeout as sleep } from 'node:timers/promises'
import type { FaultContext } from './cluster.ts'
import type { PatroniCluster } from './database.ts'
import { now } from './history.ts'

const killedEach = 6
/** Time in which the fleet works before each change. */
const restMs = 8_000
/** Time in which HAProxy redirects the fleet to the next leader. */
const redirectWithinMs = 3_000

/** Changes the leader `count` times. Returns how often each kind of change was made. */
export async function changeLeaders(
  patroni: PatroniCluster,
  { ending, write }: Pick<FaultContext, 'ending' | 'write'>,
  count: number,
  log: (line: string) => void,
): Promise<Record<string, number>> {
  const changed: Record<string, number> = {}
  for (let number = 1; number <= count; number++) {
    await sleep(restMs)
    const change = number % killedEach === 0 ? 'kill' : 'switchover'
    // PostgreSQL ends the sessions on the former leader before their holders are notified.
    const end = ending('all')
    const [at, from] = [now(), performance.now()]
    const former = await patroni[change]()
    const next = await patroni.successorOf(former)
    end()
    const tookMs = performance.now() - from
    const fault = `${change} of the leader`
    write('fault', { text: JSON.stringify({ fault, forMs: tookMs + redirectWithinMs }) }, at)
    log(`${number}: ${fault} ${former}, ${next} is the leader after ${(tookMs / 1_000).toFixed(1)} s`)
    changed[fault] = (changed[fault] ?? 0) + 1
    await sleep(restMs)
    await patroni.heal()
  }
  return changed
}
