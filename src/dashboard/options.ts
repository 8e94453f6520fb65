import type { IncomingMessage } from 'node:http'
import { type ActName, actNames } from '../acts/index.js'
import { callback, describe, flag, objectWith, readOptions, suggest, text, UsageError } from '../base/index.js'
import { checkSchemaName, checkUrl, type PgPool } from '../postgres/index.js'
import type { Redact } from './redact.js'

/** Somebody who may see the dashboard. */
export interface Visitor {
  /** Written into the audit with whatever they do. */
  readonly name: string
  /** What they may do: `read` (the default) nothing but look, `all` everything, or these acts. */
  readonly rights?: 'all' | 'read' | readonly ActName[] | undefined
}

/**
 * Says who comes, or null for nobody who may. The second parameter is there where the request came through Node.js: what
 * middleware has put on it, such as a session, is still on it.
 */
export type Auth = (request: Request, incoming?: IncomingMessage) => Visitor | null | Promise<Visitor | null>

export interface DashboardOptions {
  /** Where PostgreSQL is: `postgres://user:password@host:5432/database`. Give this, or `pool`. */
  readonly url?: string | undefined
  /** Your pool of node-postgres. It stays yours: the dashboard never closes it. */
  readonly pool?: PgPool | undefined
  /** The schema that Holdfast keeps its tables in. Default `holdfast`. */
  readonly schema?: string | undefined
  /** Who may come, and do what. Without it, only requests from this very machine are answered. */
  readonly auth?: Auth | undefined
  /** Refuses every act, whoever asks. */
  readonly readOnly?: boolean | undefined
  /** Makes of inputs, results, answers and errors what may be shown. */
  readonly redact?: Redact | undefined
}

const rules = {
  url: text,
  pool: objectWith<PgPool>('a pool of node-postgres', 'connect', 'query', 'on', 'options'),
  schema: text,
  auth: callback<Auth>('a function that says who comes'),
  readOnly: flag,
  redact: callback<Redact>('a function that makes of a payload what may be shown'),
}

export interface Settings {
  readonly database: { readonly url: string } | { readonly pool: PgPool }
  readonly schema: string
  readonly auth: Auth | undefined
  readonly readOnly: boolean
  readonly redact: Redact | undefined
}

export function readSettings(options: DashboardOptions): Settings {
  const { url, pool, schema = 'holdfast', auth, readOnly = false, redact } = readOptions('dashboard', options, rules)
  checkSchemaName(schema)
  const rest = { schema, auth, readOnly, redact }
  if (url !== undefined && pool === undefined) return { database: { url: checkUrl(url, 'url') }, ...rest }
  if (pool !== undefined && url === undefined) return { database: { pool }, ...rest }
  throw new UsageError(
    `Expected exactly one of url and pool, got ${url === undefined ? 'none' : 'both'}`,
    'For example dashboard({ url: process.env.DATABASE_URL }), with the variable set.',
  )
}

/** The visitor with what they may do, or null. A mistake of the hook is an error: it must not open a door. */
export function readVisitor(given: Visitor | null): { name: string; rights: readonly ActName[] } | null {
  if (given === null || given === undefined) return null
  const { name, rights = 'read' } = given
  if (typeof name !== 'string' || name === '') {
    throw new UsageError(`Expected auth to answer with null or { name, rights? }, got a name that is ${describe(name)}`)
  }
  if (rights === 'all') return { name, rights: actNames }
  if (rights === 'read') return { name, rights: [] }
  if (!Array.isArray(rights)) {
    throw new UsageError(`Expected rights to be "all", "read" or names of acts, got ${describe(rights)}`)
  }
  for (const right of rights) {
    if (actNames.includes(right)) continue
    const meant = suggest(String(right), actNames)
    throw new UsageError(`There is no act ${describe(right)}`, meant && `Did you mean "${meant}"?`)
  }
  return { name, rights }
}
