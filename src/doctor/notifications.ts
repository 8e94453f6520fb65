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

/**
 * Checks the server's notification queue. A listening session in an old transaction prevents PostgreSQL from emptying
 * the queue.
 */
export const notifications: Check = {
  name: 'the notification queue',
  async run(context) {
    const [{ used, pid, ...oldest }] = (await context.query<NotificationQueue>('notification_queue')) as [
      NotificationQueue,
    ]
    if (used < 0.1) return undefined
    const share = `${Math.round(used * 100)} %`
    return finding({
      id: 'notification-queue',
      severity: used < 0.5 ? 'risky' : 'wrong',
      text: `The notification queue is ${share} full${
        pid === null
          ? ''
          : `. Session ${pid} (${sessionLabel(oldest)}) in the database ${oldest.database} has the oldest transaction, which has been open for ${formatDuration(oldest.for_ms)}`
      }`,
      why: "A listening session has been in a transaction for too long. When the queue is full, every transaction that sends a notification fails when it commits, in all of the server's databases.",
      facts: { used, pid, database: pid === null ? null : oldest.database },
      fix: {
        text: 'End the oldest transaction. This statement ends its session, which rolls the transaction back:',
        sql: pid === null ? [] : [endSession(pid, oldest.started)],
      },
    })
  },
}
