import { formatDuration } from '../base/index.js'
import { finding } from './finding.js'
import { endSession, whoIs } from './horizon.js'
import type { Check } from './patient.js'

interface Queue {
  used: number
  pid: number | null
  database: string
  application: string
  role: string
  state: string | null
  for_ms: number
  started: string
}

/** The queue through which all notifications of the server go. It is emptied up to the slowest who listens. */
export const notifications: Check = {
  name: 'the queue of notifications',
  needsSchema: false,
  async look(patient) {
    const [{ used, pid, ...oldest }] = (await patient.ask<Queue>('notification_queue')) as [Queue]
    if (used < 0.1) return []
    const share = `${Math.round(used * 100)} %`
    return [
      finding({
        id: 'notification-queue',
        severity: used < 0.5 ? 'risky' : 'wrong',
        seen: `The queue of notifications is ${share} full${
          pid === null
            ? ''
            : `; the oldest transaction is that of session ${pid} (${whoIs(oldest)}) in ${oldest.database}, open for ${formatDuration(oldest.for_ms)}`
        }`,
        why: 'When it is full, every transaction that notifies fails at its commit, in all databases; some session listens, and is in a transaction for long.',
        facts: { used, pid, database: pid === null ? null : oldest.database },
        mend: {
          what: 'End that transaction. Ending the session rolls back what it has done:',
          sql: pid === null ? [] : [endSession(pid, oldest.started)],
        },
      }),
    ]
  },
}
