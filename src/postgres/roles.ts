import { UsageError } from '../base/index.js'
import type { Database, Executor } from './database.js'
import { quoteIdentifier } from './statements.js'

/**
 * Kinds of database roles. Only the role that migrates owns the schema.
 *
 * - **observer**: for the command line, the dashboard and metrics. May only read.
 * - **application**: for instances. May change everything except the audit log and the records of applied migrations
 *   and functions, which this role may only read.
 * - **operator**: for people. Has the privileges of an application, and may also write the audit log, as the dashboard
 *   does before each action.
 */
export const roleKinds = ['observer', 'application', 'operator'] as const
export type RoleKind = (typeof roleKinds)[number]

export interface Grantee {
  readonly role: string
  readonly as: RoleKind
}

/**
 * Returns the statements that grant a role its privileges and revoke privileges that the role must not have. The statements are safe to run
 * again. Default privileges cover the tables that later migrations and the job history create, but only if the schema's owner creates them.
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
      ? // The function runs as the owner and can drop the history.
        `revoke execute on function ${here}.job_roll_partitions(integer) from ${to}`
      : `revoke insert, update, delete on ${readOnlyTables.join(', ')} from ${to}`,
  ]
}

/** Returns the grants for all roles. The schema need not exist yet. Throws for roles that do not exist. */
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
        `Expected ${as} to be an existing role, got ${JSON.stringify(role)}`,
        `Create the role first: create role ${quoteIdentifier(role)} login password '…'`,
      )
    }
    if (roles.filter((other) => other === role).length > 1) {
      throw new UsageError(
        `Expected each role to be specified only once, got ${JSON.stringify(role)} several times`,
        "List each role only once: an operator has all of an application's privileges, and an application has all of an observer's privileges.",
      )
    }
  }
  return grantees.flatMap((grantee) => grantsFor(grantee, schema, server.owner))
}

/** Runs the grants in one transaction. */
export async function applyGrants(database: Database, grants: readonly string[]): Promise<void> {
  await database.transaction(async (tx) => {
    for (const statement of grants) await tx.query(statement)
  })
}
