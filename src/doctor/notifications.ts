import { formatDuration } from '../base/index.js'
import type { Check } from './doctor-context.js'
import { finding } from './finding.js'
import { endSession, sessionLabel } from './open-snapshots.js'

interface NotificationQueue {
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
  async run(context) {
    const [{ used, pid, ...oldest }] = (await context.query<NotificationQueue>('notification_queue')) as [
      NotificationQueue,
    ]
    if (used < 0.1) return []
    const share = `${Math.round(used * 100)} %`
    return [
      finding({
        id: 'notification-queue',
        severity: used < 0.5 ? 'risky' : 'wrong',
        text: `The queue of notifications is ${share} full${
          pid === null
            ? ''
            : `; the oldest transaction is that of session ${pid} (${sessionLabel(oldest)}) in ${oldest.database}, open for ${formatDuration(oldest.for_ms)}`
        }`,
        why: 'When it is full, every transaction that notifies fails at its commit, in all databases; some session listens, and is in a transaction for long.',
        facts: { used, pid, database: pid === null ? null : oldest.database },
        fix: {
          text: 'End that transaction. Ending the session rolls back what it has done:',
          sql: pid === null ? [] : [endSession(pid, oldest.started)],
        },
      }),
    ]
  },
}
