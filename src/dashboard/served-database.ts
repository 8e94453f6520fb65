import { ActRequests } from './act-requests.js'
import { DashboardContext } from './dashboard-context.js'
import type { AuthenticatedVisitor } from './guard.js'
import { Hub } from './hub.js'
import type { DatabaseSettings } from './options.js'
import { statementListOf } from './psql.js'
import { recordQueries } from './record-queries.js'
import { errorBody } from './serialize.js'
import type { ViewContext } from './view.js'
import { viewRequest } from './view-requests.js'
import type { Me, StatementList } from './wire.js'

/**
 * A database that the dashboard shows, with its own connections, polls, acts and audit log. Databases share nothing, so
 * an unresponsive database does not delay the other databases.
 */
export class ServedDatabase {
  readonly name: string | null
  readonly hub: Hub
  readonly acts: ActRequests
  readonly #context: DashboardContext

  constructor(
    { name, connection, schema }: DatabaseSettings,
    shared: Pick<ViewContext, 'redact' | 'traceUrl'> & { readonly readOnly: boolean },
  ) {
    this.name = name
    this.#context = new DashboardContext(connection, { ...shared, schema })
    this.hub = new Hub(this.#context)
    this.acts = new ActRequests(this.#context, shared.readOnly)
  }

  /** Returns the statements of a view. */
  async statements(view: string, search: URLSearchParams): Promise<StatementList> {
    const requested = viewRequest(view, search)
    await this.#context.ready()
    return statementListOf(await recordQueries(() => requested.view.read(this.#context.viewContext, requested.params)))
  }

  /** Returns the information about the visitor and the database that the page shows. */
  async describe(
    visitor: AuthenticatedVisitor,
  ): Promise<Omit<Me, 'readOnly' | 'version' | 'databases' | 'databaseName'>> {
    const info = await this.#context.databaseInfo().catch((error) => ({ error: errorBody(error) }))
    const known =
      'error' in info
        ? { server: null, namespaces: [], now: null, error: info.error }
        : { server: info.server, namespaces: info.namespaces, now: info.now.toISOString(), error: null }
    const { schema } = this.#context.viewContext
    return {
      visitor: visitor.name,
      rights: this.acts.rightsOf(visitor),
      schema,
      database: this.#context.address,
      ...known,
    }
  }

  async close(): Promise<void> {
    this.hub.close()
    await this.#context.close()
  }
}
