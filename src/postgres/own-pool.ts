import type { Socket } from 'node:net'
import pg from 'pg'
import type { Connection } from './database.js'
import { copyConfig, HostsClient } from './hosts.js'

const connectMs = 10_000
const closeWithinMs = 2_000

interface OwnPoolOptions {
  readonly max: number
  /** What the server calls its sessions. */
  readonly applicationName?: string
}

/** A pool of node-postgres that Holdfast opens, and closes, itself. */
export class OwnPool {
  readonly pool: pg.Pool
  /** Also those that are being connected. */
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
    // For good: its end does not wait for its connections, and one that the server ends meanwhile must not crash us.
    this.pool.on('error', ignore)
    this.pool.on('acquire', (client) => {
      ignoreErrors(client)
      this.#idle.delete(client)
    })
    this.pool.on('release', (_, client) => this.#idle.add(client))
    this.pool.on('remove', (client) => this.#idle.delete(client))
  }

  /** One of its connections gave no answer. Each idle one would cost the same time to be found out. */
  closeIdleConnections(): void {
    for (const client of this.#idle) destroySocket(client)
  }

  async close(): Promise<void> {
    // Nobody needs an answer any more: what is still out has fallen silent, or was left behind.
    const forceTimer = setTimeout(() => this.#clients.forEach(destroySocket), closeWithinMs)
    await this.pool.end()
    clearTimeout(forceTimer)
    // A goodbye that a silent network never answers must not keep the process from ending.
    for (const { connection } of this.#clients) (connection.stream as Socket).unref()
  }
}

/** Gives up a connection that is not opened in time. The pool's own option would also end waiting for a free one. */
class TimedConnectClient extends HostsClient {
  constructor(config: pg.ClientConfig = {}) {
    super({ ...copyConfig(config), connectionTimeoutMillis: connectMs, keepAlive: true })
  }
}

/**
 * Between a pool and whoever asked it for a connection there is a moment in which nobody listens. When the server ends the
 * session in the same packet, the process would end, too.
 */
export function ignoreErrors(client: ErrorEmitter): void {
  client.off('error', ignore)
  client.on('error', ignore)
}

interface ErrorEmitter {
  on(event: 'error', listener: () => void): unknown
  off(event: 'error', listener: () => void): unknown
}

/** What failed says so itself. */
export const ignore = () => {}

function destroySocket(client: pg.Client): void {
  ;(client.connection.stream as Socket).destroy()
}
