import type { Socket } from 'node:net'
import pg from 'pg'
import type { Connection } from './database.js'
import { copyConfig, HostsClient } from './hosts.js'

const connectMs = 10_000
const closeWithinMs = 2_000

interface OwnPoolOptions {
  readonly max: number
  readonly applicationName?: string
}

/** A pool of node-postgres that Holdfast opens and closes. */
export class OwnPool {
  readonly pool: pg.Pool
  /** All clients, also those that are connecting. */
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
    this.pool = new pg.Pool({ ...connection, Client, max, application_name: applicationName })
    // Never removed: the end of a pool does not wait for its connections, and an error of one of them must not end the process.
    this.pool.on('error', ignore)
    this.pool.on('acquire', (client) => {
      ignoreErrors(client)
      this.#idle.delete(client)
    })
    this.pool.on('release', (_, client) => this.#idle.add(client))
    this.pool.on('remove', (client) => this.#idle.delete(client))
  }

  /** Call after a connection did not respond. Otherwise each dead idle connection would cost the same timeout again. */
  closeIdleConnections(): void {
    for (const client of this.#idle) destroySocket(client)
  }

  async close(): Promise<void> {
    // A client that is still in use by then does not respond, or was never released.
    const forceTimer = setTimeout(() => this.#clients.forEach(destroySocket), closeWithinMs)
    await this.pool.end()
    clearTimeout(forceTimer)
    // A pending disconnect on an unresponsive network must not keep the process alive.
    for (const { connection } of this.#clients) (connection.stream as Socket).unref()
  }
}

/** Limits the time to connect. The option of the pool would also limit the wait for a free connection. */
class TimedConnectClient extends HostsClient {
  constructor(config: pg.ClientConfig = {}) {
    super({ ...copyConfig(config), connectionTimeoutMillis: connectMs, keepAlive: true })
  }
}

/**
 * Adds an error listener to an acquired client. Between the pool and the caller there is a moment without a listener, in which an error
 * of the connection would end the process.
 */
export function ignoreErrors(client: ErrorEmitter): void {
  client.off('error', ignore)
  client.on('error', ignore)
}

interface ErrorEmitter {
  on(event: 'error', listener: () => void): unknown
  off(event: 'error', listener: () => void): unknown
}

/** Listener for errors that the failing statement reports anyway. */
export const ignore = () => {}

function destroySocket(client: pg.Client): void {
  ;(client.connection.stream as Socket).destroy()
}
