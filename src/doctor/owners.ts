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
 * Finds locks of dead owners. A live instance sends several heartbeats before it expires, so an instance's session that
 * has been idle for longer than the expiry has no live owner. Other idle sessions may belong to a live script that is
 * doing other work. Behind a pooler in transaction mode, no such script exists: the lock belongs to the pooler's
 * connection, and its client has disconnected.
 */
export const owners: Check = {
  name: 'locks of dead owners',
  isOfFleet: true,
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    const all = await context.query<Holder>('orphaned_locks', [context.toleranceMs])
    // While an instance reconnects, its previous session may exist until it expires and the server ends it.
    const holders = all.filter(({ is_of_instance, for_ms }) => !is_of_instance || for_ms > context.expiryMs)
    return holders.slice(0, maxListed).map((holder) => orphanedLocks(context, holder))
  },
}

function orphanedLocks(context: DoctorContext, holder: Holder): Finding {
  const { pid, role, application, address, for_ms, locks, labels, started } = holder
  const isPooled = context.path === 'transaction pooler' && holder.is_from_here
  const severity: Severity = holder.is_of_instance || isPooled ? 'wrong' : 'risky'
  const owner = holder.is_of_instance
    ? `The instance ${holder.instance}, which opened the session, is no longer alive`
    : isPooled
      ? 'The session belongs to a pooler, and its client disconnected without releasing the lock'
      : 'The session does not belong to an instance'
  return finding({
    id: 'lock-of-dead-owner',
    severity,
    subject: `session ${pid}`,
    text: `Session ${pid} (${sessionLabel({ application, role, address })}) has been idle for ${formatDuration(for_ms)} and holds ${formatCount(locks, 'lock')}: ${formatList(labels)}. ${owner}`,
    why: 'Calls that wait for these names keep waiting until the session ends. The server does not end the session by itself.',
    facts: { pid, role, application, address, locks, for_ms: Math.round(for_ms), labels: labels.join(', ') },
    fix: {
      text:
        severity === 'wrong'
          ? 'End the session.'
          : 'If the program that acquired the lock has ended, end the session. A program that is still running would lose the lock.',
      sql: [endSession(pid, started)],
      fixable: severity === 'wrong',
    },
  })
}
