import type pg from 'pg'
import { suggest, UsageError } from '../base/index.js'
import type { Holdfast } from '../index.js'
import { Observer } from '../observe/index.js'
import { checkSchema, checkUrl, type Database, fromPgPool, OwnPool, schemaState } from '../postgres/index.js'
import type { Settings } from './settings.js'

/** Connection to a database of the settings. */
export interface ConnectedDatabase {
  /** Name of the database. Null if its URL has no name. */
  readonly name: string | null
  /** Undefined if the driver reads the PG* variables. */
  readonly url: string | undefined
  readonly pool: pg.Pool
  readonly database: Database
}

/** Creates a pool for the database in the settings. Refuses several databases. */
export function connect(settings: Settings, maxConnections = 5): ConnectedDatabase & { readonly schema: string } {
  const chosen = urlsIn(settings)
  if (chosen.length > 1) {
    const names = chosen.map(({ name }) => name)
    throw new UsageError(
      `This command works on one database, but the settings contain ${chosen.length}: ${names.join(', ')}`,
      `Add --database ${names[0]}, for example.`,
    )
  }
  return { ...open(chosen[0]!, maxConnections), schema: schemaIn(settings) }
}

/** Creates a pool for each database in the settings. */
export function connectAll(settings: Settings, maxConnections = 5) {
  return { databases: urlsIn(settings).map((one) => open(one, maxConnections)), schema: schemaIn(settings) }
}

interface NamedUrl {
  readonly name: string | null
  readonly url: string | undefined
}

/**
 * Returns the databases in the settings, or those that `--database` selects. Without a URL, the driver reads the PG*
 * variables.
 */
function urlsIn(settings: Settings): readonly NamedUrl[] {
  const { source, words } = settings.urls()
  const wanted = settings.text('database')
  if (words.length === 0) {
    if (!Object.keys(process.env).some((name) => /^PG(HOST|DATABASE|USER|PORT)$/.test(name)))
      throw new UsageError('No database was given', 'Set DATABASE_URL or PGHOST, or give --url.')
    if (wanted === undefined) return [{ name: null, url: undefined }]
  }
  const all = words.map((word): NamedUrl => {
    // A URL has a colon before its first equals sign.
    const [, name = null, url = word] = /^([A-Za-z0-9][\w.-]{0,39})=(.*)$/s.exec(word) ?? []
    return { name, url: checkUrl(url, source) }
  })
  const names = all.flatMap(({ name }) => (name === null ? [] : [name]))
  if (all.length > 1 && new Set(names).size < all.length) {
    throw new UsageError(
      `Expected a different name for each of the ${all.length} databases in ${source}, got ${names.length === 0 ? 'no names' : names.join(', ')}`,
      'For example: --url eu=postgres://… --url us=postgres://…',
    )
  }
  if (wanted === undefined) return all
  const found = all.find(({ name }) => name === wanted)
  if (found) return [found]
  const meant = suggest(wanted, names)
  throw new UsageError(
    `Expected --database to be ${names.length === 0 ? `a name in ${source}, such as eu=postgres://…` : names.join(' or ')}, got ${JSON.stringify(wanted)}`,
    meant && `Did you mean ${meant}?`,
  )
}

function schemaIn(settings: Settings): string {
  return settings.text('schema') ?? 'holdfast'
}

function open({ name, url }: NamedUrl, maxConnections: number): ConnectedDatabase {
  const connection = url === undefined ? {} : { connectionString: url }
  const own = new OwnPool(connection, { max: maxConnections, applicationName: 'holdfast command line' })
  return { name, url, pool: own.pool, database: fromPgPool(own.pool, connection, own) }
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
