import { performance } from 'node:perf_hooks'
import { formatDuration, noticeableClockSkewMs, riskyClockSkewMs } from '../base/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, type Severity } from './finding.js'

const attempts = 5

/** Clocks of machines beside the database's. Nothing of Holdfast's depends on them; what people write by them does. */
export const clocks: Check = {
  name: 'clocks',
  needsSchema: false,
  async run(context) {
    const here = offsetFindings('this machine', await aheadHere(context), 'just now')
    if (!context.isInstalled) return here
    const instances = await context.query<{ id: string; host: string; ahead_ms: number }>('instance_clocks')
    return [
      ...here,
      ...instances.flatMap(({ id, host, ahead_ms }) =>
        offsetFindings(`${host} (instance ${id})`, ahead_ms, 'when it opened'),
      ),
    ]
  },
}

/** By the look that took the shortest; half of its time is what it may be wrong by. */
async function aheadHere(context: DoctorContext): Promise<number> {
  let [shortestMs, aheadMs] = [Infinity, 0]
  for (let look = 0; look < attempts; look++) {
    const from = performance.now()
    const before = Date.now()
    const [row] = await context.queryAsOthers<{ now_ms: number }>('clock')
    const tookMs = performance.now() - from
    if (tookMs < shortestMs) [shortestMs, aheadMs] = [tookMs, before + tookMs / 2 - row!.now_ms]
  }
  return Math.abs(aheadMs) <= shortestMs / 2 ? 0 : aheadMs
}

function offsetFindings(where: string, aheadMs: number, when: string): Finding[] {
  const byMs = Math.abs(aheadMs)
  if (byMs < noticeableClockSkewMs) return []
  const severity: Severity = byMs < riskyClockSkewMs ? 'note' : 'risky'
  return [
    finding({
      id: 'clock-offset',
      severity,
      subject: where,
      text: `The clock of ${where} is ${formatDuration(byMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the database's, ${when}`,
      why: 'Locks, leases and ticks do not ask it. But a moment that your code computes, such as the runAt of a job, is off by as much, and so are log lines.',
      facts: { where, ahead_ms: Math.round(aheadMs) },
      fix: { text: 'Let the machine keep time, and open the instance anew.', commands: ['timedatectl set-ntp true'] },
    }),
  ]
}
