import { quoteIdentifier } from './statements.js'

const origins: Record<string, string> = {
  database: 'set for the database',
  user: 'set for the role',
  'database user': 'set for the role in this database',
  global: 'set for all roles',
  'configuration file': 'set in the configuration of the server',
  'command line': 'set where the server is started',
  client: 'asked for by the connection',
}

/** Describes where a setting comes from, by the `source` of pg_settings. */
export function describeOrigin(source: string): string {
  return origins[source] ?? `by ${source}`
}

/**
 * The statement that gives a setting another value: it resets the setting where it was made, or else sets `value` for this role
 * alone. Undefined where no statement helps, because the connection asks for the setting.
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
  // Where transactions are read-only, this one must not be.
  return name === 'default_transaction_read_only' ? `begin read write; ${statement}; commit` : statement
}

/** A text as SQL writes it. */
export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
