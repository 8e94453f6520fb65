import type { IncomingMessage } from 'node:http'
import { type ActName, type Rights, readRights } from '../acts/index.js'
import { callback, describe, flag, objectWith, readOptions, text, UsageError } from '../base/index.js'
import { checkSchemaName, checkUrl, type PgPool } from '../postgres/index.js'
import type { Redact } from './redact.js'

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
 * request, if there is one, with the properties that middleware has added, such as a session.
 */
export type Auth = (request: Request, incoming?: IncomingMessage) => Visitor | null | Promise<Visitor | null>

export interface DashboardOptions {
  /** Connection URL, such as `postgres://user:password@host:5432/database`. Required unless `pool` is set. */
  readonly url?: string | undefined
  /** Your own node-postgres pool. The dashboard never closes this pool. */
  readonly pool?: PgPool | undefined
  /** Schema that contains Holdfast's tables. Default `holdfast`. */
  readonly schema?: string | undefined
  /**
   * Authenticates visitors and grants their rights. Without `auth`, the dashboard accepts only requests from the same
   * machine.
   */
  readonly auth?: Auth | undefined
  /** Whether the dashboard refuses every act, for all visitors. Default false. */
  readonly readOnly?: boolean | undefined
  /** Removes confidential data from inputs, results, answers, errors and log lines. */
  readonly redact?: Redact | undefined
  /**
   * URL of a trace in your tracing system, such as `https://traces.example.com/trace/{traceId}`. The page of a job then links to the trace in
   * which the job was enqueued.
   */
  readonly traceUrl?: string | undefined
}

const rules = {
  url: text,
  pool: objectWith<PgPool>('a pool of node-postgres', 'connect', 'query', 'on', 'options'),
  schema: text,
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

export function readSettings(options: DashboardOptions) {
  const read = readOptions('dashboard', options, rules)
  const { url, pool, schema = 'holdfast', auth, readOnly = false, redact, traceUrl } = read
  checkSchemaName(schema)
  const rest = { schema, auth, readOnly, redact, traceUrl }
  if (url !== undefined && pool === undefined) return { database: { url: checkUrl(url, 'url') }, ...rest }
  if (pool !== undefined && url === undefined) return { database: { pool }, ...rest }
  throw new UsageError(
    `Expected exactly one of url and pool, got ${url === undefined ? 'none' : 'both'}`,
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
