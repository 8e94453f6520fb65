import type pg from 'pg'
import { UsageError } from '../base/index.js'
import type { Holdfast } from '../index.js'
import { checkSchema, checkUrl, type Database, fromPgPool, OwnPool, schemaState } from '../postgres/index.js'
import type { Settings } from './settings.js'

export interface Connection {
  readonly pool: pg.Pool
  readonly database: Database
  readonly schema: string
}

/** Creates a pool from the URL in the settings. Without a URL, the driver reads the PG* variables. */
export function connect(settings: Settings, maxConnections = 5): Connection {
  const url = settings.text('url')
  if (url === undefined && !Object.keys(process.env).some((name) => /^PG(HOST|DATABASE|USER|PORT)$/.test(name))) {
    throw new UsageError('No database was given', 'Set DATABASE_URL or PGHOST, or give --url.')
  }
  const connection =
    url === undefined
      ? {}
      : { connectionString: checkUrl(url, url === process.env.DATABASE_URL ? 'DATABASE_URL' : '--url') }
  const own = new OwnPool(connection, { max: maxConnections, applicationName: 'holdfast command line' })
  return {
    pool: own.pool,
    database: fromPgPool(own.pool, connection, own),
    schema: settings.text('schema') ?? 'holdfast',
  }
}

/** Runs `work` on a database with an up-to-date schema, and closes the connection afterwards. */
export async function withDatabase<T>(
  settings: Settings,
  work: (database: Database, schema: string, pool: pg.Pool) => Promise<T>,
): Promise<T> {
  const { pool, database, schema } = connect(settings)
  try {
    checkSchema(await schemaState({ query: database.read }, schema), schema)
    return await work(database, schema, pool)
  } finally {
    await database.close()
  }
}

/**
 * Runs `work` with an instance, which provides the methods of all modules. The instance holds no locks, so it needs no
 * anchor.
 */
export async function withHoldfast<T>(
  settings: Settings,
  work: (holdfast: Holdfast, database: Database, schema: string) => Promise<T>,
): Promise<T> {
  const { pool, database, schema } = connect(settings)
  // This import is here because most commands do not need all modules.
  const { Holdfast } = await import('../index.js')
  try {
    const namespace = settings.name('namespace')
    await using holdfast = await Holdfast.open({ pool, schema, namespace, anchor: 'none', migrate: false })
    return await work(holdfast, database, schema)
  } finally {
    await database.close()
  }
}

/**
 * Runs `work` with a function that opens one instance per namespace on first use. Closes these instances afterwards.
 */
export async function withMembers<T>(
  pool: pg.Pool,
  schema: string,
  work: (asMember: <R>(namespace: string, use: (holdfast: Holdfast) => Promise<R>) => Promise<R>) => Promise<T>,
): Promise<T> {
  const members = new Map<string, Holdfast>()
  try {
    return await work(async (namespace, use) => {
      const { Holdfast } = await import('../index.js')
      const member =
        members.get(namespace) ?? (await Holdfast.open({ pool, schema, namespace, anchor: 'none', migrate: false }))
      members.set(namespace, member)
      return use(member)
    })
  } finally {
    for (const member of members.values()) await member.close()
  }
}
