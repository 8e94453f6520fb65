import { quoteIdentifier } from './statements.js'

const origins: Record<string, string> = {
  database: 'set for the database',
  user: 'set for the role',
  'database user': 'set for the role in this database',
  global: 'set for all roles',
  'configuration file': 'set in the configuration of the server',
  'command line': 'set where the server is started',
  client: 'set by the connection',
}

/** Describes a setting's origin, based on its `source` in pg_settings. */
export function describeOrigin(source: string): string {
  return origins[source] ?? `by ${source}`
}

/**
 * Returns a statement that changes a setting: it resets the setting at its origin, or else sets `value` for this role. Returns undefined if
 * the connection itself sets the setting, because a statement cannot change that.
 */
export function settingChange(
  name: string,
  source: string,
  value: string,
  target: { readonly role: string; readonly database: string },
): string | undefined {
  if (source === 'client') return undefined
  const [role, database] = [quoteIdentifier(target.role), quoteIdentifier(target.database)]
  const reset: Record<string, string> = {
    database: `alter database ${database} reset ${name}`,
    user: `alter role ${role} reset ${name}`,
    'database user': `alter role ${role} in database ${database} reset ${name}`,
    global: `alter role all reset ${name}`,
  }
  const statement = reset[source] ?? `alter role ${role} set ${name} = ${quoteLiteral(value)}`
  // The statement itself must not run in a read-only transaction.
  return name === 'default_transaction_read_only' ? `begin read write; ${statement}; commit` : statement
}

export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
