import { formatDuration } from '../base/index.js'
import { quoteIdentifier, quoteLiteral } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, maxListed } from './finding.js'

const wrongMs = 3_600_000

const why =
  'Nothing that was deleted or changed since can be vacuumed away: tables that change all the time, such as the jobs, grow and slow down.'

/** What keeps the past alive. */
export const openSnapshots: Check = {
  name: 'what holds vacuum back: long transactions, prepared ones, slots',
  needsSchema: false,
  async run(context) {
    const [{ sessions }] = (await context.query<{ sessions: number }>('hidden_sessions')) as [{ sessions: number }]
    return [
      ...(await transactions(context)),
      ...(await preparedTransactions(context)),
      ...(await slots(context)),
      ...(sessions > 0 ? [hiddenSessions(context, sessions)] : []),
    ]
  },
}

interface Transaction {
  pid: number
  role: string
  application: string
  address: string | null
  state: string
  since: string
  for_ms: number
  query: string
  started: string
}

async function transactions(context: DoctorContext): Promise<Finding[]> {
  const rows = await context.query<Transaction>('transactions', [context.toleranceMs])
  return rows.slice(0, maxListed).map(({ for_ms, started, ...row }) =>
    finding({
      id: 'long-transaction',
      severity: for_ms >= wrongMs ? 'wrong' : 'risky',
      subject: `session ${row.pid}`,
      text: `Session ${row.pid} (${sessionLabel(row)}) has had a transaction open for ${formatDuration(for_ms)}, since ${row.since}, and is ${row.state}; its last statement: ${row.query}`,
      why,
      facts: { ...row, for_ms: Math.round(for_ms) },
      fix: {
        text: 'Let whoever it is commit. Or end the session, which rolls back what it has done:',
        sql: [endSession(row.pid, started)],
      },
    }),
  )
}

/** By its start, too: its process id may be a stranger's by now. */
export function endSession(pid: number, started: string): string {
  return `select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = ${pid} and backend_start = ${quoteLiteral(started)}`
}

export function sessionLabel({
  application,
  role,
  address,
}: {
  application: string
  role: string
  address?: string | null
}): string {
  return [application || role, ...(address ? [`from ${address}`] : [])].join(' ')
}

async function preparedTransactions(context: DoctorContext): Promise<Finding[]> {
  const rows = await context.query<{ gid: string; role: string; since: string; for_ms: number }>('prepared', [
    context.toleranceMs,
  ])
  return rows.slice(0, maxListed).map(({ gid, role, since, for_ms }) =>
    finding({
      id: 'prepared-transaction',
      severity: 'wrong',
      subject: gid,
      text: `The transaction ${gid} of ${role} has been prepared for ${formatDuration(for_ms)}, since ${since}, and is neither committed nor rolled back`,
      why: `${why} It also keeps its locks, even when the server is started anew.`,
      facts: { gid, role, since, for_ms: Math.round(for_ms) },
      fix: {
        text: 'Ask whoever prepared it whether it is to be committed. Or else, as that role:',
        sql: [`rollback prepared ${quoteLiteral(gid)}`],
      },
    }),
  )
}

async function slots(context: DoctorContext): Promise<Finding[]> {
  const rows = await context.query<{ slot: string; transactions: number; since: string | null; wal: string | null }>(
    'slots',
  )
  return rows.slice(0, maxListed).map(({ slot, transactions, since, wal }) =>
    finding({
      id: 'replication-slot',
      severity: 'risky',
      subject: slot,
      text: `Nobody uses the replication slot ${slot}${since ? ` since ${since}` : ''}, and it keeps what was deleted in the last ${formatCount(transactions, 'transaction')}${wal ? `, and ${wal} of the log` : ''}`,
      why,
      facts: { slot, transactions, since, wal },
      fix: {
        text: 'Start its standby. If that is gone for good:',
        sql: [`select pg_drop_replication_slot(${quoteLiteral(slot)})`],
      },
    }),
  )
}

function hiddenSessions({ server }: DoctorContext, sessions: number): Finding {
  return finding({
    id: 'unchecked',
    severity: 'unchecked',
    subject: 'transactions of other roles',
    text: `${formatCount(sessions, 'session')} of other roles could not be looked into`,
    why: 'A transaction that holds vacuum back, or a lock of somebody who is gone, may be among them.',
    facts: { sessions },
    fix: { text: 'As a superuser:', sql: [`grant pg_read_all_stats to ${quoteIdentifier(server.role)}`] },
  })
}
