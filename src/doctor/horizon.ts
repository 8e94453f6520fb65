import { formatDuration } from '../base/index.js'
import { quoteIdentifier, quoteLiteral } from '../postgres/index.js'
import { counted, type Finding, finding, mostTold } from './finding.js'
import type { Check, Patient } from './patient.js'

const wrongMs = 3_600_000

const why =
  'Nothing that was deleted or changed since can be vacuumed away: tables that change all the time, such as the jobs, grow and slow down.'

/** What keeps the past alive. */
export const horizon: Check = {
  name: 'what holds vacuum back: long transactions, prepared ones, slots',
  needsSchema: false,
  async look(patient) {
    const [{ sessions }] = (await patient.ask<{ sessions: number }>('hidden')) as [{ sessions: number }]
    return [
      ...(await transactions(patient)),
      ...(await prepared(patient)),
      ...(await slots(patient)),
      ...(sessions > 0 ? [hidden(patient, sessions)] : []),
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

async function transactions(patient: Patient): Promise<Finding[]> {
  const rows = await patient.ask<Transaction>('transactions', [patient.patienceMs])
  return rows.slice(0, mostTold).map(({ for_ms, started, ...row }) =>
    finding({
      id: 'long-transaction',
      severity: for_ms >= wrongMs ? 'wrong' : 'risky',
      subject: `session ${row.pid}`,
      seen: `Session ${row.pid} (${whoIs(row)}) has had a transaction open for ${formatDuration(for_ms)}, since ${row.since}, and is ${row.state}; its last statement: ${row.query}`,
      why,
      facts: { ...row, for_ms: Math.round(for_ms) },
      mend: {
        what: 'Let whoever it is commit. Or end the session, which rolls back what it has done:',
        sql: [endSession(row.pid, started)],
      },
    }),
  )
}

/** By its start, too: its process id may be a stranger's by now. */
export function endSession(pid: number, started: string): string {
  return `select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = ${pid} and backend_start = ${quoteLiteral(started)}`
}

export function whoIs({
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

async function prepared(patient: Patient): Promise<Finding[]> {
  const rows = await patient.ask<{ gid: string; role: string; since: string; for_ms: number }>('prepared', [
    patient.patienceMs,
  ])
  return rows.slice(0, mostTold).map(({ gid, role, since, for_ms }) =>
    finding({
      id: 'prepared-transaction',
      severity: 'wrong',
      subject: gid,
      seen: `The transaction ${gid} of ${role} has been prepared for ${formatDuration(for_ms)}, since ${since}, and is neither committed nor rolled back`,
      why: `${why} It also keeps its locks, even when the server is started anew.`,
      facts: { gid, role, since, for_ms: Math.round(for_ms) },
      mend: {
        what: 'Ask whoever prepared it whether it is to be committed. Or else, as that role:',
        sql: [`rollback prepared ${quoteLiteral(gid)}`],
      },
    }),
  )
}

async function slots(patient: Patient): Promise<Finding[]> {
  const rows = await patient.ask<{ slot: string; transactions: number; since: string | null; wal: string | null }>(
    'slots',
  )
  return rows.slice(0, mostTold).map(({ slot, transactions, since, wal }) =>
    finding({
      id: 'replication-slot',
      severity: 'risky',
      subject: slot,
      seen: `Nobody uses the replication slot ${slot}${since ? ` since ${since}` : ''}, and it keeps what was deleted in the last ${counted(transactions, 'transaction')}${wal ? `, and ${wal} of the log` : ''}`,
      why,
      facts: { slot, transactions, since, wal },
      mend: {
        what: 'Start its standby. If that is gone for good:',
        sql: [`select pg_drop_replication_slot(${quoteLiteral(slot)})`],
      },
    }),
  )
}

function hidden({ server }: Patient, sessions: number): Finding {
  return finding({
    id: 'unchecked',
    severity: 'unchecked',
    subject: 'transactions of other roles',
    seen: `${counted(sessions, 'session')} of other roles could not be looked into`,
    why: 'A transaction that holds vacuum back, or a lock of somebody who is gone, may be among them.',
    facts: { sessions },
    mend: { what: 'As a superuser:', sql: [`grant pg_read_all_stats to ${quoteIdentifier(server.role)}`] },
  })
}
