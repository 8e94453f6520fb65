import type { IncomingMessage } from 'node:http'
import { type ActName, type Rights, readRights } from '../acts/index.js'
import { callback, describe, flag, objectWith, readOptions, text, UsageError } from '../base/index.js'
import { checkSchemaName, checkUrl, type PgPool } from '../postgres/index.js'
import type { Redact } from './redact.js'
import { isDatabaseName } from './spec.js'

/** A person who may see the dashboard. */
export interface Visitor {
  /** The visitor's name in the audit log. */
  readonly name: string
  /**
   * The visitor's rights: `read` (default) permits no acts, `all` permits all acts, and a list permits the listed
   * acts.
   */
  readonly rights?: Rights | undefined
}

/**
 * Authenticates a request. Returns the visitor, or null to refuse the request. `incoming` is the original Node.js
 * request, if there is one, with the properties that middleware has added, such as a session. `database` is the
 * database's name if the dashboard has several `databases`. A visitor can have different rights, or no access, in each
 * database.
 */
export type Auth = (
  request: Request,
  incoming?: IncomingMessage,
  database?: string,
) => Visitor | null | Promise<Visitor | null>

/** A database that the dashboard shows. */
export interface DashboardDatabase {
  /** Connection URL, such as `postgres://user:password@host:5432/database`. Required unless `pool` is set. */
  readonly url?: string | undefined
  /** Your own node-postgres pool. The dashboard never closes this pool. */
  readonly pool?: PgPool | undefined
  /** Schema that contains Holdfast's tables. Default `holdfast`. */
  readonly schema?: string | undefined
}

export interface DashboardOptions extends DashboardDatabase {
  /**
   * Several databases, each with a name, instead of `url` or `pool`. Example: `{ eu: { url: euUrl }, us: { url: usUrl }
   * }`. A name has up to 40 letters, digits, `-`, `_` and `.`. There can be at most 24 databases.
   */
  readonly databases?: Readonly<Record<string, DashboardDatabase>> | undefined
  /**
   * Authenticates visitors and grants their rights. Without `auth`, the dashboard accepts only requests from the same
   * machine.
   */
  readonly auth?: Auth | undefined
  /** Whether the dashboard refuses every act, for all visitors. Default false. */
  readonly readOnly?: boolean | undefined
  /** Removes confidential data from inputs, results, errors and log lines. */
  readonly redact?: Redact | undefined
  /**
   * URL of a trace in your tracing system, such as `https://traces.example.com/trace/{traceId}`. The page of a job then links to the trace in
   * which the job was enqueued.
   */
  readonly traceUrl?: string | undefined
}

/** Limited, because a page watches one view of each database, and a stream has a maximum number of views. */
const maxDatabases = 24

const databaseRules = {
  url: text,
  pool: objectWith<PgPool>('a pool of node-postgres', 'connect', 'query', 'on', 'options'),
  schema: text,
}

const rules = {
  ...databaseRules,
  databases: {
    expected: `an object that maps 1 to ${maxDatabases} names to databases`,
    read: (given: unknown) => {
      if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined
      const names = Object.keys(given)
      return names.length > 0 && names.length <= maxDatabases ? (given as Record<string, DashboardDatabase>) : undefined
    },
  },
  auth: callback<Auth>('a function that returns the visitor or null'),
  readOnly: flag,
  redact: callback<Redact>('a function that redacts a payload'),
  traceUrl: {
    expected: 'an http or https URL that contains {traceId}',
    read: (given: unknown) =>
      typeof given === 'string' && /^https?:\/\//.test(given) && given.includes('{traceId}') && URL.canParse(given)
        ? given
        : undefined,
  },
}

export type Settings = ReturnType<typeof readSettings>

/** A database's name and connection. The name is null if the dashboard has only one database, without a name. */
export interface DatabaseSettings {
  readonly name: string | null
  readonly connection: { readonly url: string } | { readonly pool: PgPool }
  readonly schema: string
}

export function readSettings(options: DashboardOptions) {
  const read = readOptions('dashboard', options, rules)
  const { url, pool, schema, databases, auth, readOnly = false, redact, traceUrl } = read
  return { databases: readDatabases({ url, pool, schema }, databases), auth, readOnly, redact, traceUrl }
}

function readDatabases(
  single: DashboardDatabase,
  several: Readonly<Record<string, DashboardDatabase>> | undefined,
): readonly DatabaseSettings[] {
  if (several === undefined) return [readDatabase(null, single, single.schema)]
  if (single.url !== undefined || single.pool !== undefined) {
    throw new UsageError(
      'Expected either databases, or url or pool, got both',
      'Add the database to `databases`, with its own name.',
    )
  }
  return Object.entries(several).map(([name, given]) => {
    if (!isDatabaseName(name)) {
      throw new UsageError(
        `Expected the name of a database to have 1 to 40 letters, digits, "-", "_" and ".", got ${describe(name)}`,
      )
    }
    return readDatabase(name, readOptions(`databases.${name}`, given, databaseRules), single.schema)
  })
}

function readDatabase(
  name: string | null,
  { url, pool, schema: own }: DashboardDatabase,
  defaultSchema = 'holdfast',
): DatabaseSettings {
  const schema = own ?? defaultSchema
  checkSchemaName(schema)
  if (url !== undefined && pool === undefined) return { name, connection: { url: checkUrl(url, 'url') }, schema }
  if (pool !== undefined && url === undefined) return { name, connection: { pool }, schema }
  throw new UsageError(
    `Expected exactly one of url and pool${name === null ? '' : ` for the database ${name}`}, got ${url === undefined ? 'none' : 'both'}`,
    'Use dashboard({ url: process.env.DATABASE_URL }), for example, and check that the variable is set.',
  )
}

/** Checks the return value of `auth`. Throws for an invalid value, so that a mistake in `auth` never grants a right. */
export function readVisitor(
  given: Visitor | null,
): { readonly name: string; readonly rights: readonly ActName[] } | null {
  if (given === null || given === undefined) return null
  const { name, rights = 'read' } = given
  if (typeof name !== 'string' || name === '') {
    throw new UsageError(`Expected auth to return null or { name, rights? }, got ${describe(name)} as the name`)
  }
  return { name, rights: readRights(rights) }
}
