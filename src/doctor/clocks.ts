import { performance } from 'node:perf_hooks'
import { formatDuration, noticeableClockSkewMs, riskyClockSkewMs } from '../base/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding } from './finding.js'

const attempts = 5

/** Compares this machine's clock and the instances' clocks with the database clock. */
export const clocks: Check = {
  name: 'clocks',
  isOfFleet: true,
  async run(context) {
    const here = clockOffset('this machine', await aheadHere(context), 'now')
    const instances = (await context.aliveInstances()).map(({ name, clockAheadMs }) =>
      clockOffset(`instance ${name}`, clockAheadMs ?? 0, 'when the instance opened'),
    )
    return [here, ...instances]
  },
}

/**
 * Returns the offset of this machine's clock, measured with the fastest of several queries. The error is at most half
 * of that query's duration.
 */
async function aheadHere(context: DoctorContext): Promise<number> {
  let [shortestMs, aheadMs] = [Infinity, 0]
  for (let attempt = 0; attempt < attempts; attempt++) {
    const from = performance.now()
    const before = Date.now()
    const [row] = await context.queryAsOthers<{ now_ms: number }>('clock')
    const tookMs = performance.now() - from
    if (tookMs < shortestMs) [shortestMs, aheadMs] = [tookMs, before + tookMs / 2 - row!.now_ms]
  }
  return Math.abs(aheadMs) <= shortestMs / 2 ? 0 : aheadMs
}

function clockOffset(where: string, aheadMs: number, when: string): Finding | undefined {
  const byMs = Math.abs(aheadMs)
  if (byMs < noticeableClockSkewMs) return undefined
  return finding({
    id: 'clock-offset',
    severity: byMs < riskyClockSkewMs ? 'note' : 'risky',
    subject: where,
    text: `The clock of ${where} is ${formatDuration(byMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the database clock (measured ${when})`,
    why: "Locks, leases and ticks do not depend on this clock. However, the times in logs and the times that your code computes, such as a job's runAt, are wrong by this amount.",
    facts: { where, ahead_ms: Math.round(aheadMs) },
    fix: { text: 'Synchronize the clock, and reopen the instance.', commands: ['timedatectl set-ntp true'] },
  })
}
