import { UsageError } from '../base/index.js'
import type { Database, Executor } from './database.js'
import { quoteIdentifier } from './statements.js'

/**
 * What a role of the server is for. Nobody but the owner of the schema, who migrates it, needs to own anything.
 *
 * - **observer**: looks, with the command line, the dashboard, the metrics. Changes nothing.
 * - **application**: what instances connect with. Changes everything but the audit, which it can neither write nor forget.
 * - **operator**: what people act with. An application that also writes the audit, as the dashboard does before it acts.
 */
export const roleKinds = ['observer', 'application', 'operator'] as const
export type RoleKind = (typeof roleKinds)[number]

export interface Grantee {
  readonly role: string
  readonly as: RoleKind
}

/**
 * What gives a role its rights, and takes away those that it should not have had. Safe to run again. The rights on what later
 * migrations and the history make come by default privileges, which only count for what the owner makes.
 */
export function grantsFor({ role, as }: Grantee, schema: string, owner: string): string[] {
  const [to, here] = [quoteIdentifier(role), quoteIdentifier(schema)]
  const byDefault = `alter default privileges for role ${quoteIdentifier(owner)} in schema ${here}`
  const isObserver = as === 'observer'
  const rows = isObserver ? 'select' : 'select, insert, update, delete'
  const numbers = isObserver ? 'select' : 'usage, select, update'
  const readOnlyTables = [
    `${here}.migration`,
    `${here}.applied_functions`,
    ...(as === 'application' ? [`${here}.audit`] : []),
  ]
  return [
    `grant usage on schema ${here} to ${to}`,
    `grant execute on all functions in schema ${here} to ${to}`,
    `grant ${rows} on all tables in schema ${here} to ${to}`,
    `grant ${numbers} on all sequences in schema ${here} to ${to}`,
    `${byDefault} grant ${rows} on tables to ${to}`,
    `${byDefault} grant ${numbers} on sequences to ${to}`,
    isObserver
      ? // It runs as the owner: whoever may call it may drop the history.
        `revoke execute on function ${here}.job_roll_partitions(integer) from ${to}`
      : `revoke insert, update, delete on ${readOnlyTables.join(', ')} from ${to}`,
  ]
}

/** The grants for all of them, in a schema that may not be there yet. Refuses roles that are not there. */
export async function planGrants(executor: Executor, schema: string, grantees: readonly Grantee[]): Promise<string[]> {
  const roles = grantees.map(({ role }) => role)
  const [server] = (await executor.query<{ owner: string; known: string[] }>(
    `select
       coalesce(
         (select pg_get_userbyid(nspowner)::text from pg_namespace where oid = to_regnamespace($1)),
         current_user::text
       ) as owner,
       array(select rolname::text from pg_roles where rolname = any($2::text[])) as known`,
    [quoteIdentifier(schema), roles],
  )) as [{ owner: string; known: string[] }]
  for (const { role, as } of grantees) {
    if (!server.known.includes(role)) {
      throw new UsageError(
        `Expected ${as} to be a role of the server, got ${JSON.stringify(role)}`,
        `Make it first, as somebody who may: create role ${quoteIdentifier(role)} login password '…'`,
      )
    }
    if (roles.filter((other) => other === role).length > 1) {
      throw new UsageError(
        `Expected each role to be given once, got ${JSON.stringify(role)} several times`,
        'An operator may do all that an application may, and an application all that an observer may.',
      )
    }
  }
  return grantees.flatMap((grantee) => grantsFor(grantee, schema, server.owner))
}

/** Runs grants: all of them or none. */
export async function applyGrants(database: Database, grants: readonly string[]): Promise<void> {
  await database.transaction(async (tx) => {
    for (const statement of grants) await tx.query(statement)
  })
}
