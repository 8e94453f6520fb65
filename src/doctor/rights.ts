import { grantsFor, quoteIdentifier } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'
import { searchPath } from './search-path.js'

interface MissingRight {
  lacks: string
  kind: 'schema' | 'table' | 'view' | 'sequence' | 'function'
  thing: string
}

interface Owner {
  may_migrate: boolean
  owner: string | null
  database_owner: string
}

/** Checks the current role's rights, and the rights that other roles have in schemas on its search path. */
export const rights: Check = {
  name: 'rights of the role',
  async run(context) {
    const missingRights = await context.query<MissingRight>('rights', [context.quotedSchema])
    const [ownership] = (await context.query<Owner>('ownership', [context.quotedSchema])) as [Owner]
    const others = await context.query<{ role: string; is_superuser: boolean }>('other_roles')
    return [
      missing(context, missingRights, ownership.owner),
      cannotMigrate(context, ownership),
      cannotEnd(context, others),
      ...(await searchPath(context)),
    ]
  },
}

function missing({ server, schema }: DoctorContext, missingRights: readonly MissingRight[], owner: string | null) {
  if (missingRights.length === 0 || owner === null) return undefined
  const { role } = server
  const things = [
    ...new Set(missingRights.map(({ kind, thing }) => (kind === 'schema' ? 'the schema itself' : `${kind} ${thing}`))),
  ]
  const canRead = !missingRights.some(
    ({ kind, lacks }) => kind === 'schema' || kind === 'view' || (kind === 'table' && lacks === 'select'),
  )
  const canOpen = !missingRights.some(({ thing, lacks }) => thing === 'instance' && lacks === 'insert')
  const isObserver = canRead && !canOpen
  return finding({
    id: 'missing-rights',
    severity: isObserver ? 'note' : 'wrong',
    text: isObserver ? `The role ${role} is read-only` : `The role ${role} lacks rights on ${formatList(things)}`,
    why: isObserver
      ? 'This is correct for a role that only observes the fleet. An instance cannot be opened with this role.'
      : 'An instance that connects as this role fails, either when it opens or later.',
    facts: { role, things: things.length },
    fix: {
      text: `${isObserver ? 'If instances should connect as this role, grant' : 'Grant'} the rights as ${owner} (the schema's owner) or as a superuser:`,
      sql: grantsFor({ role, as: 'application' }, schema, owner),
    },
  })
}

/**
 * Reports a problem only if migrations are pending. Otherwise, it is good practice to connect as a role that does not
 * own the schema.
 */
function cannotMigrate(context: DoctorContext, { may_migrate, owner, database_owner }: Owner): Finding | undefined {
  const { server } = context
  if (may_migrate || (owner !== null && context.pending === 0)) return undefined
  const role = quoteIdentifier(server.role)
  return finding({
    id: 'cannot-migrate',
    severity: 'wrong',
    text:
      owner === null
        ? `The schema ${context.schema} does not exist, and the role ${server.role} may not create it`
        : `The schema needs a migration, but the role ${server.role} does not own the schema. The owner is ${owner}`,
    why: 'An instance cannot be opened if the schema is missing or out of date.',
    facts: { role: server.role, owner },
    fix:
      owner === null
        ? {
            text: `Grant the right as ${database_owner} (the database's owner), or run \`holdfast migrate\` as that role.`,
            sql: [`grant create on database ${quoteIdentifier(server.database)} to ${role}`],
          }
        : {
            text: `Run \`holdfast migrate\` as ${owner}. Or, as ${owner} or a superuser, make the role ${server.role} a member of ${owner}:`,
            sql: [`grant ${quoteIdentifier(owner)} to ${role}`],
          },
  })
}

function cannotEnd({ server }: DoctorContext, others: readonly { role: string; is_superuser: boolean }[]) {
  if (others.length === 0) return undefined
  const superusers = others.filter(({ is_superuser }) => is_superuser).map(({ role }) => role)
  return finding({
    id: 'cannot-end-sessions',
    severity: 'note',
    text: `Instances of the fleet connect as ${formatList(others.map(({ role }) => role))}, and the role ${server.role} may not end their sessions`,
    why: '`holdfast lock break` cannot end these sessions.',
    facts: { role: server.role, roles: formatCount(others.length, 'role') },
    fix:
      superusers.length > 0
        ? {
            text: `Connect the whole fleet with one role that is not a superuser. Only a superuser can end the sessions of ${formatList(superusers)}.`,
          }
        : {
            text: 'As a superuser, grant the right to end the sessions of other roles:',
            sql: [`grant pg_signal_backend to ${quoteIdentifier(server.role)}`],
          },
  })
}
