import { quoteIdentifier } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, type Severity } from './finding.js'

interface LockTable {
  used: number
  advisory: number
  each: number
  budget: number
}

interface Connections {
  limited: 'server' | 'database' | 'role'
  name: string | null
  used: number
  ours: number
  max: number
}

/** Checks resources that all of a server's clients share. */
export const capacity: Check = {
  name: 'the lock table and the connection limits',
  async run(context) {
    const [locks] = await context.query<LockTable>('lock_table_use')
    const connections = await context.query<Connections>('connections')
    return [lockTable(locks!), ...connections.map((limit) => connectionsShort(context, limit))]
  },
}

function severityOf(share: number, risky: number, wrong: number): Severity | undefined {
  return share >= wrong ? 'wrong' : share >= risky ? 'risky' : undefined
}

function lockTable({ used, advisory, each, budget }: LockTable): Finding | undefined {
  const severity = severityOf(used / budget, 0.5, 0.8)
  if (!severity) return undefined
  return finding({
    id: 'lock-table-full',
    severity,
    text: `The lock table contains ${used.toLocaleString('en-US')} of at most ${budget.toLocaleString('en-US')} locks, including ${advisory.toLocaleString('en-US')} advisory locks`,
    why: "When the lock table is full, every statement that needs a lock fails, in all of the server's databases (SQLSTATE 53200).",
    facts: { used, advisory, budget, max_locks_per_transaction: each },
    fix: {
      text: 'Increase max_locks_per_transaction and restart the server. Or hold fewer locks at a time. Leases and limits are stored in rows and do not use the lock table.',
      sql: [`alter system set max_locks_per_transaction = ${Math.ceil((each * used * 4) / budget / 64) * 64}`],
    },
  })
}

function connectionsShort(
  context: DoctorContext,
  { limited, name, used, ours, max }: Connections,
): Finding | undefined {
  const severity = severityOf(used / max, 0.8, 0.95)
  if (!severity) return undefined
  const place = limited === 'server' ? 'The server' : `The ${limited} ${name}`
  return finding({
    id: 'connections-short',
    severity,
    subject: name ?? limited,
    text: `${place} has ${used} of at most ${max} connections, including ${ours} connections of the fleet`,
    why: 'When the limit is reached, an instance that has lost its session cannot reconnect, and no new instance can be opened.',
    facts: { limited, name, used, fleet: ours, most: max },
    fix: moreConnections(context, limited, name, used),
  })
}

function moreConnections(
  { server }: DoctorContext,
  limited: Connections['limited'],
  name: string | null,
  used: number,
) {
  const limit = Math.ceil(used * 2)
  const statements: Record<typeof limited, string> = {
    server: `alter system set max_connections = ${limit}`,
    database: `alter database ${quoteIdentifier(server.database)} connection limit ${limit}`,
    role: `alter role ${quoteIdentifier(name ?? '')} connection limit ${limit}`,
  }
  const text = `Reduce the pool sizes, or increase the limit${limited === 'server' ? ' and restart the server' : ''}.`
  return { text, sql: [statements[limited]] }
}
