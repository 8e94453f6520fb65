import { quoteIdentifier } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, type Fix, finding, type Severity } from './finding.js'

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

/** What is shared with everybody on the server, and ends for all at once. */
export const capacity: Check = {
  name: 'room in the lock table and for connections',
  needsSchema: false,
  async run(context) {
    const [locks] = await context.query<LockTable>('lock_table_use')
    const connections = await context.query<Connections>('connections')
    return [...lockTable(locks!), ...connections.flatMap((limit) => connectionsShort(context, limit))]
  },
}

function severityOf(share: number, risky: number, wrong: number): Severity | undefined {
  return share >= wrong ? 'wrong' : share >= risky ? 'risky' : undefined
}

function lockTable({ used, advisory, each, budget }: LockTable): Finding[] {
  const severity = severityOf(used / budget, 0.5, 0.8)
  if (!severity) return []
  return [
    finding({
      id: 'lock-table-full',
      severity,
      text: `${used.toLocaleString('en-US')} things are locked, of ${budget.toLocaleString('en-US')} that the lock table was made for; ${advisory.toLocaleString('en-US')} are advisory locks`,
      why: 'When it is full, every statement that needs a lock fails, of all databases (SQLSTATE 53200).',
      facts: { used, advisory, budget, max_locks_per_transaction: each },
      fix: {
        text: 'Raise it, which takes effect when the server is started anew; or hold fewer names at a time (leases and limits are rows, and take none).',
        sql: [`alter system set max_locks_per_transaction = ${Math.ceil((each * used * 4) / budget / 64) * 64}`],
      },
    }),
  ]
}

function connectionsShort(context: DoctorContext, { limited, name, used, ours, max }: Connections): Finding[] {
  const severity = severityOf(used / max, 0.8, 0.95)
  if (!severity) return []
  const place = limited === 'server' ? 'The server' : `The ${limited} ${name}`
  return [
    finding({
      id: 'connections-short',
      severity,
      subject: name ?? limited,
      text: `${place} has ${used} connections, of ${max} that it takes; ${ours} of them are the fleet's`,
      why: 'When none is left, an instance that has lost its session cannot come back, and no new one can open.',
      facts: { limited, name, used, fleet: ours, most: max },
      fix: moreConnections(context, limited, name, used),
    }),
  ]
}

function moreConnections(
  { server }: DoctorContext,
  limited: Connections['limited'],
  name: string | null,
  used: number,
) {
  const wanted = Math.ceil(used * 2)
  const fixes: Record<typeof limited, Pick<Fix, 'text' | 'sql'>> = {
    server: {
      text: 'Make pools smaller, or raise it, which takes effect when the server is started anew.',
      sql: [`alter system set max_connections = ${wanted}`],
    },
    database: {
      text: 'Make pools smaller, or raise it.',
      sql: [`alter database ${quoteIdentifier(server.database)} connection limit ${wanted}`],
    },
    role: {
      text: 'Make pools smaller, or raise it.',
      sql: [`alter role ${quoteIdentifier(name ?? '')} connection limit ${wanted}`],
    },
  }
  return fixes[limited]
}
