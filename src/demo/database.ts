import type pg from 'pg'
import { HoldfastError, hashedKey } from '../base/index.js'
import { startEmbedded } from '../embedded/index.js'
import { checkUrl, HostsClient, loadStatements, translate } from '../postgres/index.js'

/** A database with two schemas: one for Holdfast, and one for the company's tables. */
export interface DemoDatabase extends AsyncDisposable {
  readonly url: string
  readonly directUrl: string | undefined
  readonly schema: string
  readonly tables: string
  /** Describes the database in the demo's output. */
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
    const tables = 'company'
    await createTables(url, tables)
    return {
      url,
      directUrl: undefined,
      schema: 'holdfast',
      tables,
      description: `The demo has started PostgreSQL ${server.version} and will delete all data on exit: ${url}`,
      [Symbol.asyncDispose]: () => server.stop(),
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** Creates two schemas in the user's database and drops them before the demo exits. Only one demo can run at a time. */
async function openOnServer(
  url: string,
  directUrl: string | undefined,
  warn: (message: string) => void,
): Promise<DemoDatabase> {
  const [schema, tables] = ['holdfast_demo', 'holdfast_demo_company']
  const connectionString = checkUrl(directUrl ?? url, '--url')
  const connect = async () => {
    const client = new HostsClient<pg.Client>({ connectionString, connectionTimeoutMillis: 10_000 })
    client.on('error', () => {}) // The next statement rejects with the error.
    await client.connect()
    return client
  }
  const drop = async (client: pg.Client) => {
    await client.query('set client_min_messages = warning')
    await client.query(`drop schema if exists ${schema}, ${tables} cascade`)
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
    await createTables(url, tables)
  } catch (error) {
    await lockClient?.end().catch(() => {})
    throw translate(error)
  }
  return {
    url,
    directUrl,
    schema,
    tables,
    description: `The demo is running in the schemas ${schema} and ${tables} of your database, and will drop both schemas on exit.`,
    async [Symbol.asyncDispose]() {
      try {
        // Opens a new session, because a server restart or failover may have ended the session that held the lock.
        const client = await connect()
        await drop(client).finally(() => client.end())
      } catch (error) {
        warn(`The schemas ${schema} and ${tables} could not be dropped: ${(error as Error).message}`)
      }
      await lockClient.end().catch(() => {})
    },
  }
}

async function createTables(url: string, schema: string): Promise<void> {
  const client = new HostsClient<pg.Client>({ connectionString: url, options: `-c search_path=${schema}` })
  await client.connect()
  try {
    const { tables } = loadStatements<'tables'>(new URL('./company/company.sql', import.meta.url), schema)
    await client.query(`create schema ${schema}; ${tables.text}`)
  } finally {
    await client.end()
  }
}
