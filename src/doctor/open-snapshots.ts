import { formatDuration } from '../base/index.js'
import { quoteIdentifier, quoteLiteral } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, maxListed } from './finding.js'

const wrongMs = 3_600_000

const why =
  'Vacuum cannot remove rows that were recently deleted or changed. Tables that change often, such as the job table, grow and become slow.'

/** Finds old snapshots, which prevent vacuum from removing dead rows. */
export const openSnapshots: Check = {
  name: 'long transactions, prepared transactions and replication slots',
  async run(context) {
    const [{ sessions }] = (await context.query<{ sessions: number }>('hidden_sessions')) as [{ sessions: number }]
    return [
      ...(await transactions(context)),
      ...(await preparedTransactions(context)),
      ...(await slots(context)),
      hiddenSessions(context, sessions),
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
      text: `Session ${row.pid} (${sessionLabel(row)}) has had a transaction open for ${formatDuration(for_ms)}, since ${row.since}, and is ${row.state}. Its last statement was: ${row.query}`,
      why,
      facts: { ...row, for_ms: Math.round(for_ms) },
      fix: {
        text: 'Commit the transaction in the application that opened it. Or end the session, which rolls the transaction back:',
        sql: [endSession(row.pid, started)],
      },
    }),
  )
}

/** Also checks the start time, because a newer session may have received the same process ID. */
export function endSession(pid: number, started: string): string {
  return `select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = ${pid} and backend_start = ${quoteLiteral(started)}`
}

export function sessionLabel(session: { application: string; role: string; address?: string | null }): string {
  const { application, role, address } = session
  return (application || role) + (address ? ` from ${address}` : '')
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
      text: `The transaction ${gid} of the role ${role} was prepared ${formatDuration(for_ms)} ago, at ${since}, and has been neither committed nor rolled back`,
      why: `${why} The prepared transaction also keeps its locks, even after the server restarts.`,
      facts: { gid, role, since, for_ms: Math.round(for_ms) },
      fix: {
        text: 'Find out whether the transaction should be committed. If not, roll it back as the role that prepared it:',
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
      text: `The replication slot ${slot} has been unused${since ? ` since ${since}` : ''}. It retains the rows that the last ${formatCount(transactions, 'transaction')} deleted${wal ? `, and ${wal} of WAL` : ''}`,
      why,
      facts: { slot, transactions, since, wal },
      fix: {
        text: 'Start the standby that uses the slot. If the standby no longer exists, drop the slot:',
        sql: [`select pg_drop_replication_slot(${quoteLiteral(slot)})`],
      },
    }),
  )
}

function hiddenSessions({ server }: DoctorContext, sessions: number): Finding | undefined {
  if (sessions === 0) return undefined
  return finding({
    id: 'unchecked',
    severity: 'unchecked',
    subject: 'transactions of other roles',
    text: `The current role may not inspect ${formatCount(sessions, 'session')} of other roles`,
    why: 'One of these sessions may prevent vacuum from removing dead rows, or may hold the lock of a dead owner.',
    facts: { sessions },
    fix: {
      text: 'As a superuser, grant the right to inspect all sessions:',
      sql: [`grant pg_read_all_stats to ${quoteIdentifier(server.role)}`],
    },
  })
}
