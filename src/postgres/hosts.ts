import type { Socket } from 'node:net'
import type pg from 'pg'
import { type HoldfastError, messageOf, pause } from '../base/index.js'
import { configPerHost, hostList } from './address.js'
import type { Connection } from './database.js'
import { DatabaseUnreachableError } from './errors.js'
import { driver } from './pg.js'
import { isServerError, translate } from './sqlstate.js'
import { loadStatements } from './statements.js'

/**
 * Finds the primary among several hosts.
 *
 * All hosts are probed at the same time, because a dead host may take a long time to time out. Holdfast uses the first
 * host that accepts writes, unless that host was replaced. Every standby promotion begins a new timeline, and an
 * isolated old primary stays on its own timeline. So the process remembers the latest timeline that any host has
 * reported. The process skips hosts with an earlier timeline and closes all connections to them.
 *
 * A process that does not know a timeline yet also waits up to 1 s for the other responses. If the process can reach only an old primary,
 * it cannot detect that this primary was replaced. Only synchronous replication or the cluster manager prevents that case.
 */
type HostsConfig = pg.ClientConfig & Pick<Connection, 'hosts'>

interface Primary {
  readonly host: string
  readonly port: number
  /**
   * The cluster's system identifier and hosts. The identifier alone is not enough, because copies of a system have the
   * same identifier.
   */
  readonly cluster: string
  /** Timeline of the host. 0 if the server does not report its timeline. */
  readonly timeline: number
}

interface HostConfig {
  readonly config: pg.ClientConfig
  /** All hosts, as `host:port`. */
  readonly allHosts: string
}

interface ServerRole {
  readonly refuses_writes: boolean
  readonly system: string | null
  /** Name of the current WAL file. Its first 8 digits are the timeline. */
  readonly wal_file: string | null
}

const sql = loadStatements<'role' | 'role_without_system'>(new URL('./hosts.sql', import.meta.url), 'holdfast')

/** Time to wait for the other hosts' responses if the process knows no timeline of the first primary's cluster yet. */
const otherHostsMs = 1_000

/** Latest timeline that this process has seen in each cluster. */
const latestTimelines = new Map<string, number>()
/** Host of each open connection. */
const connectedPrimaries = new Map<PgHostsClient, Primary>()

/** @internal */
export class PgHostsClient extends driver.Client {
  readonly #hosts: readonly HostConfig[]
  readonly #probeTimeoutMs: number

  constructor(config: HostsConfig = {}) {
    const hosts = hostConfigs(config)
    super(hosts[0]!.config)
    this.#hosts = hosts
    this.#probeTimeoutMs = (config.connectionTimeoutMillis || 10_000) / 2
  }

  override connect(): Promise<pg.Client>
  override connect(callback: (error: Error) => void): void
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const hasOne = this.#hosts.length === 1
    if (!callback) return hasOne ? super.connect() : this.#connectToPrimary()
    if (hasOne) super.connect(callback)
    else {
      this.#connectToPrimary().then(
        // The callback runs outside the promise, because the promise would swallow an exception that the callback throws.
        () => process.nextTick(callback, null),
        (error) => process.nextTick(callback, error),
      )
    }
    return undefined
  }

  async #connectToPrimary(): Promise<pg.Client> {
    const primary = await this.#findPrimary().catch((error) => {
      // The client emits `end`, as the driver does for a failed connection.
      this.emit('end')
      throw error
    })
    const { host, port } = primary
    // The driver passes `connectionParameters` to a password function.
    for (const place of [this, (this as unknown as { connectionParameters: object }).connectionParameters]) {
      Object.assign(place, { host, port })
    }
    // The connection may be closed before its owner adds an error listener.
    this.on('error', () => {})
    await super.connect()
    // A different host may have reported a later timeline in the meantime.
    if (isReplaced(primary)) {
      this.end().catch(() => {})
      throw new DatabaseUnreachableError(replacedMessage(primary))
    }
    connectedPrimaries.set(this, primary)
    this.once('end', () => connectedPrimaries.delete(this))
    return this
  }

  async #findPrimary(): Promise<Primary> {
    const primary = await findPrimary(this.#hosts, this.#probeTimeoutMs)
    // The pool destroys the stream when the pool's connect timeout expires.
    if (this.connection.stream.destroyed) throw new DatabaseUnreachableError('The connection attempt timed out')
    return primary
  }
}

/**
 * A node-postgres client that accepts several hosts and connects to the primary. With this client, your pool moves to the new primary after
 * a failover, as Holdfast's own pools do. With one host, this client behaves like the driver's client.
 *
 * Holdfast's types do not import node-postgres's types. If you create a client yourself, pass its type: `new
 * HostsClient<pg.Client>(…)`.
 *
 * @example
 * const pool = new pg.Pool({ connectionString: 'postgres://app:secret@one,two:5433/app', Client: HostsClient })
 * const holdfast = await Holdfast.open({ pool })
 */
export const HostsClient = PgHostsClient as new <Client = object>(
  config?: Connection & { readonly [option: string]: unknown },
) => Client

/**
 * Periodically probes the hosts to which this process is not connected. If one of these hosts has become the primary, connections to the
 * old primary are closed, even if the old primary still responds. Returns a function that stops the probes.
 */
export function watchHosts(connections: readonly Connection[], everyMs: number): () => void {
  const several = connections.map(hostConfigs).filter((hosts) => hosts.length > 1)
  if (several.length === 0) return () => {}
  const timer = setInterval(() => {
    const here = new Set([...connectedPrimaries.values()].map(hostPort))
    for (const { config, allHosts } of several.flat()) {
      const client = probeClient(config, everyMs)
      if (!here.has(hostPort(client))) probeHost(client, allHosts).catch(() => {})
    }
  }, everyMs).unref()
  return () => clearInterval(timer)
}

function hostConfigs(config: HostsConfig): HostConfig[] {
  const all = hostList(config as Connection)
  return configPerHost(config as Connection).map((host) => ({
    config: { ...copyConfig(config), ...host },
    allHosts: all,
  }))
}

/** @internal Copies a connection config with its password, which is not enumerable in a pool's options. */
export function copyConfig<Config extends pg.ClientConfig>(config: Config): Config {
  const { password } = config
  return password ? { ...config, password } : { ...config }
}

async function findPrimary(hosts: readonly HostConfig[], patienceMs: number): Promise<Primary> {
  const known = new Set(latestTimelines.keys())
  const primaries: Primary[] = []
  const probes = hosts.map(async ({ config, allHosts }, at) => {
    const primary = await probeHost(probeClient(config, patienceMs), allHosts)
    primaries[at] = primary
    return primary
  })
  const results = Promise.allSettled(probes)
  const first = await Promise.any(probes).catch(() => undefined)
  if (first && !known.has(first.cluster)) await Promise.race([results, pause(otherHostsMs)])
  const choose = () => primaries.find((one) => one && !isReplaced(one))
  const primary = choose() ?? (await results.then(choose))
  if (primary) return primary
  throw noPrimaryError((await results).map(rejectionOf))
}

/** Returns the reason why a host is not used. A host that responded as the primary may have been replaced since then. */
function rejectionOf(result: PromiseSettledResult<Primary>): HoldfastError {
  if (result.status === 'rejected') return result.reason
  return new DatabaseUnreachableError(`${hostPort(result.value)} (${replacedText})`)
}

function probeClient(config: pg.ClientConfig, withinMs: number): pg.Client {
  return new driver.Client({
    ...config,
    connectionTimeoutMillis: withinMs,
    query_timeout: withinMs,
    application_name: 'holdfast looks for the primary',
  })
}

/** Returns the host if it is the primary, and throws otherwise. */
async function probeHost(client: pg.Client, allHosts: string): Promise<Primary> {
  client.on('error', () => {})
  try {
    await client.connect()
    const { refuses_writes: refusesWrites, system, wal_file: walFile } = await roleOf(client)
    if (refusesWrites) throw new DatabaseUnreachableError('a standby, or read-only')
    const timeline = walFile === null ? 0 : Number.parseInt(walFile.slice(0, 8), 16)
    const primary = { host: client.host, port: client.port, cluster: `${system} ${allHosts}`, timeline }
    recordTimeline(primary)
    if (isReplaced(primary)) throw new DatabaseUnreachableError(replacedText)
    return primary
  } catch (error) {
    const { host, port, user = '', database = '' } = client
    const translated = translate(error, { host, port, user, database })
    // A wrong password or a missing database causes the same error on all hosts.
    if (!translated.retryable) throw translated
    throw new DatabaseUnreachableError(`${hostPort(client)} (${messageOf(error)})`, error)
  } finally {
    client.end().catch(() => {})
    // A pending disconnect on an unresponsive network must not keep the process alive.
    ;(client.connection.stream as Socket).unref()
  }
}

async function roleOf(client: pg.Client): Promise<ServerRole> {
  const { rows } = await client.query<ServerRole>(sql.role.text).catch((error) => {
    if (!isServerError(error)) throw error
    return client.query<ServerRole>(sql.role_without_system.text)
  })
  return rows[0]!
}

function recordTimeline({ cluster, timeline }: Primary): void {
  if (timeline <= (latestTimelines.get(cluster) ?? -1)) return
  latestTimelines.set(cluster, timeline)
  for (const [client, primary] of connectedPrimaries) {
    if (isReplaced(primary)) client.connection.stream.destroy(new Error(replacedMessage(primary)))
  }
}

function isReplaced({ cluster, timeline }: Primary): boolean {
  return timeline < (latestTimelines.get(cluster) ?? 0)
}

const replacedText = 'was the primary, but has been replaced'

function replacedMessage(primary: Primary): string {
  return `${hostPort(primary)} ${replacedText}`
}

function noPrimaryError(reasons: readonly HoldfastError[]): HoldfastError {
  const refusal = reasons.find(({ retryable }) => !retryable)
  if (refusal) return refusal
  const each = reasons.map(({ message }) => message).join(', ')
  return new DatabaseUnreachableError(`None of the hosts is a reachable primary: ${each}`, reasons[0])
}

function hostPort({ host, port }: { host: string; port: number }): string {
  return `${host}:${port}`
}
