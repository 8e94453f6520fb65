import type { Socket } from 'node:net'
import pg from 'pg'
import { type HoldfastError, messageOf, pause } from '../base/index.js'
import { configPerHost, hostList } from './address.js'
import type { Connection } from './database.js'
import { DatabaseUnreachableError } from './errors.js'
import { isServerError, translate } from './sqlstate.js'
import { loadStatements } from './statements.js'

/**
 * Which of several hosts is the primary.
 *
 * All are asked at once, for a host that is gone may take long to be silent. The first one that takes writes is the one,
 * unless it was replaced: every promotion of a standby begins a timeline, and an old primary that was cut off goes on
 * writing its own. So this process remembers the latest timeline that it has seen at any of the hosts. One with an earlier
 * timeline is passed over, and connections that still lead to it are cut, whoever had them.
 *
 * A process that has seen nothing yet waits a moment for the others' answers, too. If it can reach nobody but an old
 * primary, it cannot know: only synchronous replication, or who manages the cluster, keeps such a server from being believed.
 */
type HostsConfig = pg.ClientConfig & Pick<Connection, 'hosts'>

interface Primary {
  readonly host: string
  readonly port: number
  /** The system, by its identifier and by the hosts that were asked: copies of a system elsewhere have the same identifier. */
  readonly cluster: string
  /** 0 where the server does not tell. */
  readonly timeline: number
}

/** One of several, and `host:port` of all of them. */
interface HostConfig {
  readonly config: pg.ClientConfig
  readonly allHosts: string
}

interface ServerRole {
  readonly refuses_writes: boolean
  readonly system: string | null
  /** Its first eight digits are the timeline. */
  readonly wal_file: string | null
}

const sql = loadStatements<'role' | 'role_without_system'>(new URL('./hosts.sql', import.meta.url), 'holdfast')

/** How long to wait for the others' answers where the first primary is one of which nothing is known. */
const otherHostsMs = 1_000

/** The latest timeline of each cluster that this process has seen. */
const latestTimelines = new Map<string, number>()
/** Where the connections lead that were made to one of several hosts. */
const connectedPrimaries = new Map<HostsClient, Primary>()

/**
 * A client of node-postgres that takes several hosts and connects to the one that is the primary, so that a pool of yours
 * moves to the new primary after a failover, as those do that Holdfast opens. With one host it is the driver's own.
 *
 * @example
 * const pool = new pg.Pool({ connectionString: 'postgres://app:secret@one,two:5433/app', Client: HostsClient })
 * const holdfast = await Holdfast.open({ pool })
 */
export class HostsClient extends pg.Client {
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
        // Not as a part of our promise, which would swallow what it throws.
        () => process.nextTick(callback, null),
        (error) => process.nextTick(callback, error),
      )
    }
    return undefined
  }

  async #connectToPrimary(): Promise<pg.Client> {
    const primary = await this.#findPrimary().catch((error) => {
      // As the driver says of a connection that did not come about.
      this.emit('end')
      throw error
    })
    const { host, port } = primary
    // The driver shows the parameters to whoever makes the password.
    for (const place of [this, (this as unknown as { connectionParameters: object }).connectionParameters]) {
      Object.assign(place, { host, port })
    }
    // It may be cut before whoever asked for it listens.
    this.on('error', () => {})
    await super.connect()
    // That may have become known while we connected.
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
    // So it is when whoever asked has given up meanwhile.
    if (this.connection.stream.destroyed) throw new DatabaseUnreachableError('The connection was given up')
    return primary
  }
}

/**
 * Asks now and then the hosts to which this process is not connected whether one of them has become the primary. Then what
 * leads to the old one is cut, although it still answers. Returns how to stop.
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

/** With the password, which a pool hides from whoever copies its options. */
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

/** One that answered may have turned out to be replaced since. */
function rejectionOf(answer: PromiseSettledResult<Primary>): HoldfastError {
  if (answer.status === 'rejected') return answer.reason
  return new DatabaseUnreachableError(`${hostPort(answer.value)} (${replacedText})`)
}

function probeClient(config: pg.ClientConfig, withinMs: number): pg.Client {
  return new pg.Client({
    ...config,
    connectionTimeoutMillis: withinMs,
    query_timeout: withinMs,
    application_name: 'holdfast looks for the primary',
  })
}

/** What this host is, if it is the primary. */
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
    // A wrong password, or a database that is not there, is so on all of them.
    if (!translated.retryable) throw translated
    throw new DatabaseUnreachableError(`${hostPort(client)} (${messageOf(error)})`, error)
  } finally {
    client.end().catch(() => {})
    // A goodbye that a silent network never answers must not keep the process from ending.
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

const replacedText = 'was the primary, and another has taken its place'

function replacedMessage(primary: Primary): string {
  return `${hostPort(primary)} ${replacedText}`
}

function noPrimaryError(reasons: readonly HoldfastError[]): HoldfastError {
  const refusal = reasons.find(({ retryable }) => !retryable)
  if (refusal) return refusal
  const each = reasons.map(({ message }) => message).join(', ')
  return new DatabaseUnreachableError(`None of the hosts is a primary that can be reached: ${each}`, reasons[0])
}

function hostPort({ host, port }: { host: string; port: number }): string {
  return `${host}:${port}`
}
