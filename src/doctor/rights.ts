import { grantsFor, quoteIdentifier } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'
import { searchPath } from './search-path.js'

interface MissingRight {
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
  async run(context) {
    const missingRights = await context.query<MissingRight>('rights', [context.quotedSchema])
    const [ownership] = (await context.query<Owner>('ownership', [context.quotedSchema])) as [Owner]
    const others = await context.query<{ role: string; is_superuser: boolean }>('other_roles')
    return [
      ...(missingRights.length > 0 && ownership.owner !== null
        ? [missing(context, missingRights, ownership.owner)]
        : []),
      ...cannotMigrate(context, ownership),
      ...(others.length > 0 ? [cannotEnd(context, others)] : []),
      ...(await searchPath(context)),
    ]
  },
}

function missing({ server, schema }: DoctorContext, missingRights: readonly MissingRight[], owner: string): Finding {
  const { role } = server
  const things = [
    ...new Set(missingRights.map(({ kind, thing }) => (kind === 'schema' ? 'the schema itself' : `${kind} ${thing}`))),
  ]
  const mayLook = !missingRights.some(
    ({ kind, lacks: right }) => kind === 'schema' || (kind === 'table' && right === 'select'),
  )
  const cannotOpen = missingRights.some(({ thing, lacks: right }) => thing === 'instance' && right === 'insert')
  const isObserver = mayLook && cannotOpen
  return finding({
    id: 'missing-rights',
    severity: isObserver ? 'note' : 'wrong',
    text: isObserver ? `The role ${role} may only look` : `The role ${role} lacks rights on ${formatList(things)}`,
    why: isObserver
      ? 'As an observer should. No instance can open with it.'
      : 'What an instance with this role asks for fails, some of it only when it is needed.',
    facts: { role, things: things.length },
    fix: {
      text: `${isObserver ? 'If instances are to connect as this role: as' : 'As'} ${owner}, who owns the schema, or as a superuser:`,
      sql: grantsFor({ role, as: 'application' }, schema, owner),
    },
  })
}

/** Asked only where there is something to migrate: not to be the owner is good practice otherwise. */
function cannotMigrate(context: DoctorContext, { may_migrate, owner, database_owner }: Owner): Finding[] {
  const { server } = context
  if (may_migrate || (owner !== null && context.pending === 0)) return []
  const role = quoteIdentifier(server.role)
  return [
    finding({
      id: 'cannot-migrate',
      severity: 'wrong',
      text:
        owner === null
          ? `There is no schema ${context.schema}, and the role ${server.role} may not make one`
          : `The schema is to be brought up to date, and the role ${server.role} does not own it: ${owner} does`,
      why: 'An instance that finds the schema out of date, or missing, cannot open.',
      facts: { role: server.role, owner },
      fix:
        owner === null
          ? {
              text: `As ${database_owner}, who owns the database; or let that role run \`holdfast migrate\`.`,
              sql: [`grant create on database ${quoteIdentifier(server.database)} to ${role}`],
            }
          : {
              text: `Run \`holdfast migrate\` as ${owner}; or, as that role or a superuser, make this one its member.`,
              sql: [`grant ${quoteIdentifier(owner)} to ${role}`],
            },
    }),
  ]
}

function cannotEnd({ server }: DoctorContext, others: readonly { role: string; is_superuser: boolean }[]): Finding {
  const superusers = others.filter(({ is_superuser }) => is_superuser).map(({ role }) => role)
  return finding({
    id: 'cannot-end-sessions',
    severity: 'note',
    text: `The role ${server.role} may not end the sessions of ${formatList(others.map(({ role }) => role))}, who take part in the fleet`,
    why: '`holdfast lock break` cannot take a lock from them.',
    facts: { role: server.role, roles: formatCount(others.length, 'role') },
    fix:
      superusers.length > 0
        ? {
            text: `Let the fleet connect with one role, and no superuser: ${formatList(superusers)} can only be ended by another.`,
          }
        : { text: 'As a superuser:', sql: [`grant pg_signal_backend to ${quoteIdentifier(server.role)}`] },
  })
}
