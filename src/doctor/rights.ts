import { grantsFor, quoteIdentifier } from '../postgres/index.js'
import { counted, type Finding, finding, listed } from './finding.js'
import type { Check, Patient } from './patient.js'
import { searchPath } from './search-path.js'

interface Lack {
  lacks: string
  kind: 'schema' | 'table' | 'sequence' | 'function'
  thing: string
}

interface Owner {
  may_migrate: boolean
  owner: string | null
  database_owner: string
}

/** What the role that we connect with may do, and what others may do to it. */
export const rights: Check = {
  name: 'rights of the role',
  needsSchema: false,
  async look(patient) {
    const lacks = await patient.ask<Lack>('rights', [patient.quotedSchema])
    const [ownership] = (await patient.ask<Owner>('ownership', [patient.quotedSchema])) as [Owner]
    const others = await patient.ask<{ role: string; is_superuser: boolean }>('other_roles')
    return [
      ...(lacks.length > 0 && ownership.owner !== null ? [missing(patient, lacks, ownership.owner)] : []),
      ...cannotMigrate(patient, ownership),
      ...(others.length > 0 ? [cannotEnd(patient, others)] : []),
      ...(await searchPath(patient)),
    ]
  },
}

function missing({ server, schema }: Patient, lacks: readonly Lack[], owner: string): Finding {
  const { role } = server
  const things = [
    ...new Set(lacks.map(({ kind, thing }) => (kind === 'schema' ? 'the schema itself' : `${kind} ${thing}`))),
  ]
  const mayLook = !lacks.some(({ kind, lacks: right }) => kind === 'schema' || (kind === 'table' && right === 'select'))
  const cannotOpen = lacks.some(({ thing, lacks: right }) => thing === 'instance' && right === 'insert')
  const isObserver = mayLook && cannotOpen
  return finding({
    id: 'missing-rights',
    severity: isObserver ? 'note' : 'wrong',
    seen: isObserver ? `The role ${role} may only look` : `The role ${role} lacks rights on ${listed(things)}`,
    why: isObserver
      ? 'As an observer should. No instance can open with it.'
      : 'What an instance with this role asks for fails, some of it only when it is needed.',
    facts: { role, things: things.length },
    mend: {
      what: `${isObserver ? 'If instances are to connect as this role: as' : 'As'} ${owner}, who owns the schema, or as a superuser:`,
      sql: grantsFor({ role, as: 'application' }, schema, owner),
    },
  })
}

/** Asked only where there is something to migrate: not to be the owner is good practice otherwise. */
function cannotMigrate(patient: Patient, { may_migrate, owner, database_owner }: Owner): Finding[] {
  const { server } = patient
  if (may_migrate || (owner !== null && patient.pending === 0)) return []
  const role = quoteIdentifier(server.role)
  return [
    finding({
      id: 'cannot-migrate',
      severity: 'wrong',
      seen:
        owner === null
          ? `There is no schema ${patient.schema}, and the role ${server.role} may not make one`
          : `The schema is to be brought up to date, and the role ${server.role} does not own it: ${owner} does`,
      why: 'An instance that finds the schema out of date, or missing, cannot open.',
      facts: { role: server.role, owner },
      mend:
        owner === null
          ? {
              what: `As ${database_owner}, who owns the database; or let that role run \`holdfast migrate\`.`,
              sql: [`grant create on database ${quoteIdentifier(server.database)} to ${role}`],
            }
          : {
              what: `Run \`holdfast migrate\` as ${owner}; or, as that role or a superuser, make this one its member.`,
              sql: [`grant ${quoteIdentifier(owner)} to ${role}`],
            },
    }),
  ]
}

function cannotEnd({ server }: Patient, others: readonly { role: string; is_superuser: boolean }[]): Finding {
  const superusers = others.filter(({ is_superuser }) => is_superuser).map(({ role }) => role)
  return finding({
    id: 'cannot-end-sessions',
    severity: 'note',
    seen: `The role ${server.role} may not end the sessions of ${listed(others.map(({ role }) => role))}, who take part in the fleet`,
    why: '`holdfast lock break` cannot take a lock from them.',
    facts: { role: server.role, roles: counted(others.length, 'role') },
    mend:
      superusers.length > 0
        ? {
            what: `Let the fleet connect with one role, and no superuser: ${listed(superusers)} can only be ended by another.`,
          }
        : { what: 'As a superuser:', sql: [`grant pg_signal_backend to ${quoteIdentifier(server.role)}`] },
  })
}
