import type pg from 'pg'
import { HoldfastError, hashedKey } from '../base/index.js'
import { startEmbedded } from '../embedded/index.js'
import { checkUrl, fromPgPool, HostsClient, loadStatements, migrate, OwnPool, translate } from '../postgres/index.js'

/** A database with three schemas: one for Holdfast, and one for the tables of each of the two companies. */
export interface DemoDatabase extends AsyncDisposable {
  readonly url: string
  readonly directUrl: string | undefined
  readonly schema: string
  readonly tables: string
  /** Schema with the tables of the company that does not use Holdfast. The tables stay empty unless that company runs. */
  readonly tablesWithout: string
  /** Describes the database in the demo's output, without its password. */
  readonly description: string
}

/** Thrown by `holdfast demo` if another demo is already running in the database. */
export class DemoRunningError extends HoldfastError {
  constructor() {
    super('Another demo is already running in this database', {
      code: 'DEMO_RUNS',
      retryable: true,
      hint: 'Wait until the other demo has ended, or choose another database. Without --url, the demo starts its own server.',
    })
  }
}

type DatabaseUrls = { readonly url: string; readonly directUrl: string | undefined } | undefined

/**
 * Opens a database for the demo. Without URLs, starts an embedded server and uses Holdfast's default schema, so that
 * other commands need only the URL. `warn` receives errors that occur during the cleanup.
 */
export async function openDemoDatabase(urls: DatabaseUrls, warn: (message: string) => void): Promise<DemoDatabase> {
  if (urls) return openOnServer(urls.url, urls.directUrl, warn)
  const server = await startEmbedded({
    // Flushing is unnecessary: the data does not outlive the demo, and a killed process does not lose data that the operating system has
    // not written yet.
    settings: { fsync: 'off', full_page_writes: 'off', max_connections: '300' },
  })
  try {
    const url = await server.createDatabase('demo')
    const names = { schema: 'holdfast', tables: 'company', tablesWithout: 'company_without' }
    await createSchemas(url, names)
    return {
      url,
      directUrl: undefined,
      ...names,
      description: `PostgreSQL ${server.version}, started by the demo. All data is deleted on exit.`,
      [Symbol.asyncDispose]: () => server.stop(),
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** Creates schemas in the user's database and drops them before the demo exits. Only one demo can run at a time. */
async function openOnServer(
  url: string,
  directUrl: string | undefined,
  warn: (message: string) => void,
): Promise<DemoDatabase> {
  const names = {
    schema: 'holdfast_demo',
    tables: 'holdfast_demo_company',
    tablesWithout: 'holdfast_demo_company_without',
  }
  const { schema } = names
  const all = Object.values(names).join(', ')
  const connectionString = checkUrl(directUrl ?? url, '--url')
  const connect = async () => {
    const client = new HostsClient<pg.Client>({ connectionString, connectionTimeoutMillis: 10_000 })
    client.on('error', () => {}) // The next statement rejects with the error.
    await client.connect()
    return client
  }
  const drop = async (client: pg.Client) => {
    await client.query('set client_min_messages = warning')
    await client.query(`drop schema if exists ${all} cascade`)
  }
  let lockClient: pg.Client | undefined
  try {
    lockClient = await connect()
    const { rows } = await lockClient.query('select pg_try_advisory_lock($1) as is_ours', [
      hashedKey(schema, 'demo').key,
    ])
    if (!rows[0].is_ours) {
      throw new DemoRunningError()
    }
    await drop(lockClient)
    await createSchemas(connectionString, names)
  } catch (error) {
    await lockClient?.end().catch(() => {})
    throw translate(error)
  }
  return {
    url,
    directUrl,
    ...names,
    description: `Your database. The demo drops its schemas (${all}) on exit.`,
    async [Symbol.asyncDispose]() {
      try {
        // Opens a new session, because a server restart or failover may have ended the session that held the lock.
        const client = await connect()
        await drop(client).finally(() => client.end())
      } catch (error) {
        warn(`The schemas ${all} could not be dropped: ${(error as Error).message}`)
      }
      await lockClient.end().catch(() => {})
    },
  }
}

type SchemaNames = Pick<DemoDatabase, 'schema' | 'tables' | 'tablesWithout'>

/**
 * Creates Holdfast's tables and the companies' tables. The instances could create Holdfast's tables themselves, but an
 * interrupted demo reads the tables before any instance is open.
 */
async function createSchemas(url: string, { schema, tables, tablesWithout }: SchemaNames): Promise<void> {
  const connection = { connectionString: url }
  const own = new OwnPool(connection, { max: 1, applicationName: 'holdfast demo' })
  const database = fromPgPool(own.pool, connection, own)
  try {
    await migrate(database, schema)
    for (const company of [tables, tablesWithout]) await createCompany(url, company)
  } finally {
    await database.close()
  }
}

async function createCompany(url: string, schema: string): Promise<void> {
  const client = new HostsClient<pg.Client>({ connectionString: url, options: `-c search_path=${schema}` })
  await client.connect()
  try {
    const { tables } = loadStatements<'tables'>(new URL('./company/company.sql', import.meta.url), schema)
    await client.query(`create schema ${schema}; ${tables.text}`)
  } finally {
    await client.end()
  }
}
