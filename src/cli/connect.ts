import type pg from 'pg'
import { UsageError } from '../base/index.js'
import type { Holdfast } from '../index.js'
import { Observer } from '../observe/index.js'
import { checkSchema, checkUrl, type Database, fromPgPool, OwnPool, schemaState } from '../postgres/index.js'
import type { Settings } from './settings.js'

/** Creates a pool from the URL in the settings. Without a URL, the driver reads the PG* variables. */
export function connect(settings: Settings, maxConnections = 5) {
  const url = settings.text('url')
  if (url === undefined && !Object.keys(process.env).some((name) => /^PG(HOST|DATABASE|USER|PORT)$/.test(name))) {
    throw new UsageError('No database was given', 'Set DATABASE_URL or PGHOST, or give --url.')
  }
  const connection =
    url === undefined
      ? {}
      : { connectionString: checkUrl(url, url === process.env.DATABASE_URL ? 'DATABASE_URL' : '--url') }
  const own = new OwnPool(connection, { max: maxConnections, applicationName: 'holdfast command line' })
  const schema = settings.text('schema') ?? 'holdfast'
  return { pool: own.pool, database: fromPgPool(own.pool, connection, own), schema }
}

/** Runs `work` on a database that has an up-to-date schema, and closes the connection afterwards. */
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

/** Runs `work` with an observer on a database that has an up-to-date schema. */
export function observe<T>(settings: Settings, work: (observer: Observer) => Promise<T>): Promise<T> {
  return withDatabase(settings, (database, schema) => work(new Observer(database, schema)))
}

/** Runs `work` with an instance, which provides all modules' methods. */
export async function withHoldfast<T>(
  settings: Settings,
  work: (holdfast: Holdfast, observer: Observer) => Promise<T>,
): Promise<T> {
  const { pool, database, schema } = connect(settings)
  try {
    await using holdfast = await openMember(pool, schema, settings.name('namespace'))
    return await work(holdfast, new Observer(database, schema))
  } finally {
    await database.close()
  }
}

/** Runs `work` with a function that opens one instance per namespace on first use, and closes them afterwards. */
export async function withMembers<T>(
  pool: pg.Pool,
  schema: string,
  work: (asMember: <R>(namespace: string, use: (holdfast: Holdfast) => Promise<R>) => Promise<R>) => Promise<T>,
): Promise<T> {
  const members = new Map<string, Holdfast>()
  try {
    return await work(async (namespace, use) => {
      const member = members.get(namespace) ?? (await openMember(pool, schema, namespace))
      members.set(namespace, member)
      return use(member)
    })
  } finally {
    for (const member of members.values()) await member.close()
  }
}

/** Opens an instance that holds no locks and therefore needs no anchor. */
async function openMember(pool: pg.Pool, schema: string, namespace: string | undefined): Promise<Holdfast> {
  // Imported here and not at the top, because most commands do not need all modules.
  const { Holdfast } = await import('../index.js')
  return Holdfast.open({ pool, schema, namespace, anchor: 'none', migrate: false, log: false })
}
