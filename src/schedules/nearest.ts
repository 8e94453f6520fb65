import { pause } from '../base/index.js'
import type { TickRule } from '../cron/index.js'

/** Maximum time by which a caller with a fast clock may be early. An even earlier call belongs to the previous tick. */
const maxEarlyMs = 5 * 60_000

/** Returns the tick that is nearest to `nowMs`, in the past or in the future. Null if the rule has no tick yet. */
export function nearestTick(rule: TickRule, nowMs: number): Date | null {
  const last = rule.previous(new Date(nowMs + 1))
  const next = rule.next(new Date(nowMs))
  if (next === null) return last
  const earlyMs = next.getTime() - nowMs
  const lateMs = last === null ? Infinity : nowMs - last.getTime()
  return earlyMs <= Math.min(maxEarlyMs, lateMs) ? next : last
}

/** Waits until a remote clock has reached `moment`. A local timer only decides when the remote clock is read again. */
export async function untilMoment(moment: Date, now: () => Promise<number>, signal?: AbortSignal): Promise<void> {
  for (;;) {
    signal?.throwIfAborted()
    const leftMs = moment.getTime() - (await now())
    if (leftMs <= 0) return
    await pause(leftMs, signal)
  }
}
