import { pause } from '../base/index.js'
import type { TickRule } from '../cron/index.js'

/** How long before its tick somebody may come, whose clock is quick. Who comes earlier means the tick before. */
const maxEarlyMs = 5 * 60_000

/** The tick that somebody means who comes now: the nearest one, before or soon; null when there is none yet. */
export function nearestTick(rule: TickRule, nowMs: number): Date | null {
  const last = rule.previous(new Date(nowMs + 1))
  const next = rule.next(new Date(nowMs))
  if (next === null) return last
  const earlyMs = next.getTime() - nowMs
  const lateMs = last === null ? Infinity : nowMs - last.getTime()
  return earlyMs <= Math.min(maxEarlyMs, lateMs) ? next : last
}

/** Waits until it is this moment for a clock that is asked over a wire; timers of this process only say when to ask again. */
export async function untilMoment(moment: Date, now: () => Promise<number>, signal?: AbortSignal): Promise<void> {
  for (;;) {
    signal?.throwIfAborted()
    const leftMs = moment.getTime() - (await now())
    if (leftMs <= 0) return
    await pause(leftMs, signal)
  }
}
