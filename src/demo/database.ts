import { HoldfastError, hashedKey } from '../base/index.js'
import { startEmbedded } from '../embedded/index.js'
import { checkUrl, HostsClient, loadStatements, translate } from '../postgres/index.js'

/** Where the demo takes place: a database, and the two schemas in it, that of Holdfast and that of the company. */
export interface DemoDatabase extends AsyncDisposable {
  readonly url: string
  readonly directUrl: string | undefined
  readonly schema: string
  readonly tables: string
  /** What people are told of it. */
  readonly description: string
}

type DatabaseUrls = { readonly url: string; readonly directUrl: string | undefined } | undefined

/**
 * Without `given`: an embedded server, where Holdfast is in its usual schema, so that all other commands work there by the URL alone.
 * `warn` receives what goes wrong while the ground is cleaned up.
 */
export async function openDemoDatabase(urls: DatabaseUrls, warn: (message: string) => void): Promise<DemoDatabase> {
  if (urls) return openOnServer(urls.url, urls.directUrl, warn)
  const server = await startEmbedded({
    // Nothing of it outlives the demo, and processes that are killed do not endanger what the system has yet to write.
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
      description: `PostgreSQL ${server.version} runs for this demo, with nothing kept: ${url}`,
      [Symbol.asyncDispose]: () => server.stop(),
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** In somebody's database: two schemas of the demo's own, which one demo at a time makes anew and drops at its end. */
async function openOnServer(
  url: string,
  directUrl: string | undefined,
  warn: (message: string) => void,
): Promise<DemoDatabase> {
  const [schema, tables] = ['holdfast_demo', 'holdfast_demo_company']
  const connectionString = checkUrl(directUrl ?? url, '--url')
  const connect = async () => {
    const client = new HostsClient({ connectionString, connectionTimeoutMillis: 10_000 })
    client.on('error', () => {}) // The statement that fails says it.
    await client.connect()
    return client
  }
  const drop = async (client: HostsClient) => {
    await client.query('set client_min_messages = warning')
    await client.query(`drop schema if exists ${schema}, ${tables} cascade`)
  }
  let lockClient: HostsClient | undefined
  try {
    lockClient = await connect()
    const { rows } = await lockClient.query('select pg_try_advisory_lock($1) as is_ours', [
      hashedKey(schema, 'demo').key,
    ])
    if (!rows[0].is_ours) {
      throw new HoldfastError('Another demo runs in this database', {
        code: 'DEMO_RUNS',
        retryable: true,
        hint: 'Wait for its end, or give another database. Without --url the demo brings its own.',
      })
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
    description: `The demo runs in your database, in the schemas ${schema} and ${tables}, which it drops at its end.`,
    async [Symbol.asyncDispose]() {
      try {
        // The keeper's session is gone when the server was restarted, or failed over, while the demo ran.
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
  const client = new HostsClient({ connectionString: url, options: `-c search_path=${schema}` })
  await client.connect()
  try {
    const { tables } = loadStatements<'tables'>(new URL('./company/company.sql', import.meta.url), schema)
    await client.query(`create schema ${schema}; ${tables.text}`)
  } finally {
    await client.end()
  }
}
