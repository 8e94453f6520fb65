import { formatDuration } from '../base/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList, maxListed, type Severity } from './finding.js'
import { endSession, sessionLabel } from './open-snapshots.js'

interface Holder {
  pid: number
  role: string
  application: string
  address: string | null
  instance: string
  is_of_instance: boolean
  is_from_here: boolean
  for_ms: number
  started: string
  locks: number
  labels: string[]
}

/**
 * Locks that nobody will release. A living instance is heard from several times within its expiry, so a session of ours that
 * has rested for long has nobody behind it. Others who rest may be alive: a script that does its work elsewhere meanwhile;
 * behind a pooler in transaction mode they cannot be, for there a lock stays with the pooler's connection when its client
 * has left.
 */
export const owners: Check = {
  name: 'locks whose owners are gone',
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    const all = await context.query<Holder>('orphaned_locks', [context.toleranceMs])
    // Between two lives an instance has left its session, which the server ends at the expiry.
    const holders = all.filter(({ is_of_instance, for_ms }) => !is_of_instance || for_ms > context.expiryMs)
    return holders.slice(0, maxListed).map((holder) => orphanedLocks(context, holder))
  },
}

function orphanedLocks(context: DoctorContext, holder: Holder): Finding {
  const { pid, role, application, address, for_ms, locks, labels, started } = holder
  const isPooled = context.path === 'transaction pooler' && holder.is_from_here
  const severity: Severity = holder.is_of_instance || isPooled ? 'wrong' : 'risky'
  const owner = holder.is_of_instance
    ? `its instance ${holder.instance} is gone`
    : isPooled
      ? "it is a pooler's, whose client has left the lock behind"
      : 'it is no session of an instance'
  return finding({
    id: 'lock-of-dead-owner',
    severity,
    subject: `session ${pid}`,
    text: `Session ${pid} (${sessionLabel({ application, role, address })}) has rested for ${formatDuration(for_ms)} and holds ${formatCount(locks, 'lock')}: ${formatList(labels)}; ${owner}`,
    why: 'Whoever wants these names waits until the session ends, and nothing ends it.',
    facts: { pid, role, application, address, locks, for_ms: Math.round(for_ms), labels: labels.join(', ') },
    fix: {
      text:
        severity === 'wrong'
          ? 'End the session.'
          : 'If whoever took the lock is gone, end the session; a program that does its work elsewhere meanwhile would lose it.',
      sql: [endSession(pid, started)],
      fixable: severity === 'wrong',
    },
  })
}
