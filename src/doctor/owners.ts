import { formatDuration } from '../base/index.js'
import { counted, type Finding, finding, listed, mostTold, type Severity } from './finding.js'
import { endSession, whoIs } from './horizon.js'
import type { Check, Patient } from './patient.js'

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
  async look(patient): Promise<Finding[]> {
    const all = await patient.ask<Holder>('advisory', [patient.patienceMs])
    // Between two lives an instance has left its session, which the server ends at the expiry.
    const holders = all.filter(({ is_of_instance, for_ms }) => !is_of_instance || for_ms > patient.expiryMs)
    return holders.slice(0, mostTold).map((holder) => orphaned(patient, holder))
  },
}

function orphaned(patient: Patient, holder: Holder): Finding {
  const { pid, role, application, address, for_ms, locks, labels, started } = holder
  const isPooled = patient.path === 'transaction pooler' && holder.is_from_here
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
    seen: `Session ${pid} (${whoIs({ application, role, address })}) has rested for ${formatDuration(for_ms)} and holds ${counted(locks, 'lock')}: ${listed(labels)}; ${owner}`,
    why: 'Whoever wants these names waits until the session ends, and nothing ends it.',
    facts: { pid, role, application, address, locks, for_ms: Math.round(for_ms), labels: labels.join(', ') },
    mend: {
      what:
        severity === 'wrong'
          ? 'End the session.'
          : 'If whoever took the lock is gone, end the session; a program that does its work elsewhere meanwhile would lose it.',
      sql: [endSession(pid, started)],
      fixable: severity === 'wrong',
    },
  })
}
