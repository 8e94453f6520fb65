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

/** Where the settings lead: to a URL, or else to where the PG* variables say, which the driver reads by itself. */
export function connect(settings: Settings, maxConnections = 5): Connection {
  const url = settings.text('url')
  if (url === undefined && !Object.keys(process.env).some((name) => /^PG(HOST|DATABASE|USER|PORT)$/.test(name))) {
    throw new UsageError('No database was given', 'Set DATABASE_URL, or PGHOST and its kin, or give --url.')
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

/** Runs `work` on a database where Holdfast is installed, and closes the connection whatever happens. */
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

/** The same as a member of the fleet, for what its rooms do. It holds nothing, so it needs no session of its own. */
export async function withHoldfast<T>(
  settings: Settings,
  work: (holdfast: Holdfast, database: Database, schema: string) => Promise<T>,
): Promise<T> {
  const { pool, database, schema } = connect(settings)
  // Only here, so that who merely looks need not load all the rooms.
  const { Holdfast } = await import('../index.js')
  try {
    const namespace = settings.name('namespace')
    await using holdfast = await Holdfast.open({ pool, schema, namespace, anchor: 'none', migrate: false })
    return await work(holdfast, database, schema)
  } finally {
    await database.close()
  }
}

/** Runs `work` with a function that opens a member of a namespace when it is first needed. Closes these members afterwards. */
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
