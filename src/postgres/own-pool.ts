import type { Socket } from 'node:net'
import type pg from 'pg'
import type { Connection } from './database.js'
import { copyConfig, PgHostsClient } from './hosts.js'
import { driver } from './pg.js'

const connectMs = 10_000
/**
 * Maximum time to wait for connections to end. On an unresponsive network, a connection never reports its end, and
 * closing an instance must not wait for it.
 */
const closeWithinMs = 500

interface OwnPoolOptions {
  readonly max: number
  readonly applicationName?: string
}

/** A node-postgres pool that Holdfast opens and closes. */
export class OwnPool {
  /** @internal */
  readonly pool: pg.Pool
  /** All clients, including those that are still connecting. */
  readonly #clients = new Set<pg.Client>()
  readonly #idle = new Set<pg.PoolClient>()

  constructor(connection: Connection, { max, applicationName = 'holdfast' }: OwnPoolOptions) {
    const clients = this.#clients
    class Client extends TimedConnectClient {
      constructor(config?: pg.ClientConfig) {
        super(config)
        clients.add(this)
        this.once('end', () => clients.delete(this))
      }
    }
    this.pool = new driver.Pool({ ...connection, Client, max, application_name: applicationName })
    // This listener is never removed. Closing a pool does not wait for its connections, and an error on one of them must not end the
    // process.
    this.pool.on('error', ignore)
    this.pool.on('acquire', (client) => {
      ignoreErrors(client)
      this.#idle.delete(client)
    })
    this.pool.on('release', (_, client) => this.#idle.add(client))
    this.pool.on('remove', (client) => this.#idle.delete(client))
  }

  /**
   * Discards idle connections. Call this method after a connection did not respond. Otherwise each dead idle connection would cause the
   * same timeout again.
   */
  closeIdleConnections(): void {
    for (const client of this.#idle) destroySocket(client)
  }

  async close(): Promise<void> {
    // A client that is still in use at this point is unresponsive, or was never released.
    const forceTimer = setTimeout(() => this.#clients.forEach(destroySocket), closeWithinMs)
    await this.pool.end()
    clearTimeout(forceTimer)
    // A pending disconnect on an unresponsive network must not keep the process alive.
    for (const { connection } of this.#clients) (connection.stream as Socket).unref()
  }
}

/** Client with a connect timeout. The pool's own timeout option would also limit the wait for a free connection. */
class TimedConnectClient extends PgHostsClient {
  constructor(config: pg.ClientConfig = {}) {
    super({ ...copyConfig(config), connectionTimeoutMillis: connectMs, keepAlive: true })
  }
}

/**
 * Adds an error listener to an acquired client. When the pool hands the client over, the client briefly has no listener. A connection error
 * at that moment would end the process.
 */
export function ignoreErrors(client: ErrorEmitter): void {
  client.off('error', ignore)
  client.on('error', ignore)
}

interface ErrorEmitter {
  on(event: 'error', listener: () => void): unknown
  off(event: 'error', listener: () => void): unknown
}

/** Error listener that does nothing. If the error affects a statement, the statement reports it. */
export const ignore = () => {}

function destroySocket(client: pg.Client): void {
  ;(client.connection.stream as Socket).destroy()
}
