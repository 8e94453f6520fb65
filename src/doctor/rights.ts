import { quoteIdentifier } from '../postgres/index.js'
import { counted, type Finding, finding, listed } from './finding.js'
import type { Check, Patient } from './patient.js'

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

/** What the role that we connect with may do. */
export const rights: Check = {
  name: 'rights of the role',
  needsSchema: false,
  async look(patient) {
    const lacks = await patient.ask<Lack>('rights', [patient.quotedSchema])
    const others = await patient.ask<{ role: string; is_superuser: boolean }>('other_roles')
    return [
      ...(lacks.length > 0 ? [missing(patient, lacks)] : []),
      ...(await cannotMigrate(patient)),
      ...(others.length > 0 ? [cannotEnd(patient, others)] : []),
    ]
  },
}

function missing({ server, quotedSchema }: Patient, lacks: readonly Lack[]): Finding {
  const role = quoteIdentifier(server.role)
  const things = [
    ...new Set(lacks.map(({ kind, thing }) => (kind === 'schema' ? 'the schema itself' : `${kind} ${thing}`))),
  ]
  const grants: Record<Lack['kind'], string> = {
    schema: `grant usage on schema ${quotedSchema} to ${role}`,
    table: `grant select, insert, update, delete on all tables in schema ${quotedSchema} to ${role}`,
    sequence: `grant usage, select, update on all sequences in schema ${quotedSchema} to ${role}`,
    function: `grant execute on all functions in schema ${quotedSchema} to ${role}`,
  }
  const kinds = new Set(lacks.map(({ kind }) => kind))
  return finding({
    id: 'missing-rights',
    severity: 'wrong',
    seen: `The role ${server.role} lacks rights on ${listed(things)}`,
    why: 'What an instance with this role asks for fails, some of it only when it is needed.',
    facts: { role: server.role, things: things.length },
    mend: {
      what: 'As the owner of the schema, or as a superuser:',
      sql: Object.entries(grants).flatMap(([kind, grant]) => (kinds.has(kind as Lack['kind']) ? [grant] : [])),
    },
  })
}

/** Asked only where there is something to migrate: not to be the owner is good practice otherwise. */
async function cannotMigrate(patient: Patient): Promise<Finding[]> {
  const { server, quotedSchema } = patient
  const [{ may_migrate, owner, database_owner }] = (await patient.ask<Owner>('ownership', [quotedSchema])) as [Owner]
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
