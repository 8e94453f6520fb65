import type { Socket } from 'node:net'
import pg from 'pg'
import { type HoldfastError, messageOf, pause } from '../base/index.js'
import { eachHost, hostsOf } from './address.js'
import { DatabaseUnreachableError } from './errors.js'
import type { Connection } from './port.js'
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
interface Host {
  readonly config: pg.ClientConfig
  readonly all: string
}

interface Role {
  readonly refuses_writes: boolean
  readonly system: string | null
  /** Its first eight digits are the timeline. */
  readonly wal_file: string | null
}

const sql = loadStatements<'role' | 'bare_role'>(new URL('./hosts.sql', import.meta.url), 'holdfast')

/** How long to wait for the others' answers where the first primary is one of which nothing is known. */
const othersMs = 1_000

/** The latest timeline of each cluster that this process has seen. */
const latest = new Map<string, number>()
/** Where the connections lead that were made to one of several hosts. */
const connected = new Map<HostsClient, Primary>()

/**
 * A client of node-postgres that takes several hosts and connects to the one that is the primary, so that a pool of yours
 * moves to the new primary after a failover, as those do that Holdfast opens. With one host it is the driver's own.
 *
 * @example
 * const pool = new pg.Pool({ connectionString: 'postgres://app:secret@one,two:5433/app', Client: HostsClient })
 * const holdfast = await Holdfast.open({ pool })
 */
export class HostsClient extends pg.Client {
  readonly #hosts: readonly Host[]
  readonly #patienceMs: number

  constructor(config: HostsConfig = {}) {
    const hosts = hostsFrom(config)
    super(hosts[0]!.config)
    this.#hosts = hosts
    this.#patienceMs = (config.connectionTimeoutMillis || 10_000) / 2
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
    const primary = await this.#seek().catch((error) => {
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
      throw new DatabaseUnreachableError(whyReplaced(primary))
    }
    connected.set(this, primary)
    this.once('end', () => connected.delete(this))
    return this
  }

  async #seek(): Promise<Primary> {
    const primary = await findPrimary(this.#hosts, this.#patienceMs)
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
  const several = connections.map(hostsFrom).filter((hosts) => hosts.length > 1)
  if (several.length === 0) return () => {}
  const timer = setInterval(() => {
    const here = new Set([...connected.values()].map(addressed))
    for (const { config, all } of several.flat()) {
      const client = clientFor(config, everyMs)
      if (!here.has(addressed(client))) ask(client, all).catch(() => {})
    }
  }, everyMs).unref()
  return () => clearInterval(timer)
}

function hostsFrom(config: HostsConfig): Host[] {
  const all = hostsOf(config as Connection)
  return eachHost(config as Connection).map((host) => ({ config: { ...copyOf(config), ...host }, all }))
}

/** With the password, which a pool hides from whoever copies its options. */
export function copyOf<Config extends pg.ClientConfig>(config: Config): Config {
  const { password } = config
  return password ? { ...config, password } : { ...config }
}

async function findPrimary(hosts: readonly Host[], patienceMs: number): Promise<Primary> {
  const known = new Set(latest.keys())
  const primaries: Primary[] = []
  const asked = hosts.map(async ({ config, all }, at) => {
    const primary = await ask(clientFor(config, patienceMs), all)
    primaries[at] = primary
    return primary
  })
  const answers = Promise.allSettled(asked)
  const first = await Promise.any(asked).catch(() => undefined)
  if (first && !known.has(first.cluster)) await Promise.race([answers, pause(othersMs)])
  const choose = () => primaries.find((one) => one && !isReplaced(one))
  const primary = choose() ?? (await answers.then(choose))
  if (primary) return primary
  throw noPrimary((await answers).map(whyNot))
}

/** One that answered may have turned out to be replaced since. */
function whyNot(answer: PromiseSettledResult<Primary>): HoldfastError {
  if (answer.status === 'rejected') return answer.reason
  return new DatabaseUnreachableError(`${addressed(answer.value)} (${replacedSaid})`)
}

function clientFor(config: pg.ClientConfig, withinMs: number): pg.Client {
  return new pg.Client({
    ...config,
    connectionTimeoutMillis: withinMs,
    query_timeout: withinMs,
    application_name: 'holdfast looks for the primary',
  })
}

/** What this host is, if it is the primary. */
async function ask(client: pg.Client, allHosts: string): Promise<Primary> {
  client.on('error', () => {})
  try {
    await client.connect()
    const { refuses_writes: refusesWrites, system, wal_file: walFile } = await roleOf(client)
    if (refusesWrites) throw new DatabaseUnreachableError('a standby, or read-only')
    const timeline = walFile === null ? 0 : Number.parseInt(walFile.slice(0, 8), 16)
    const primary = { host: client.host, port: client.port, cluster: `${system} ${allHosts}`, timeline }
    learn(primary)
    if (isReplaced(primary)) throw new DatabaseUnreachableError(replacedSaid)
    return primary
  } catch (error) {
    const { host, port, user = '', database = '' } = client
    const translated = translate(error, { host, port, user, database })
    // A wrong password, or a database that is not there, is so on all of them.
    if (!translated.retryable) throw translated
    throw new DatabaseUnreachableError(`${addressed(client)} (${messageOf(error)})`, error)
  } finally {
    client.end().catch(() => {})
    // A goodbye that a silent network never answers must not keep the process from ending.
    ;(client.connection.stream as Socket).unref()
  }
}

async function roleOf(client: pg.Client): Promise<Role> {
  const { rows } = await client.query<Role>(sql.role.text).catch((error) => {
    if (!isServerError(error)) throw error
    return client.query<Role>(sql.bare_role.text)
  })
  return rows[0]!
}

function learn({ cluster, timeline }: Primary): void {
  if (timeline <= (latest.get(cluster) ?? -1)) return
  latest.set(cluster, timeline)
  for (const [client, primary] of connected) {
    if (isReplaced(primary)) client.connection.stream.destroy(new Error(whyReplaced(primary)))
  }
}

function isReplaced({ cluster, timeline }: Primary): boolean {
  return timeline < (latest.get(cluster) ?? 0)
}

const replacedSaid = 'was the primary, and another has taken its place'

function whyReplaced(primary: Primary): string {
  return `${addressed(primary)} ${replacedSaid}`
}

function noPrimary(reasons: readonly HoldfastError[]): HoldfastError {
  const refusal = reasons.find(({ retryable }) => !retryable)
  if (refusal) return refusal
  const each = reasons.map(({ message }) => message).join(', ')
  return new DatabaseUnreachableError(`None of the hosts is a primary that can be reached: ${each}`, reasons[0])
}

function addressed({ host, port }: { host: string; port: number }): string {
  return `${host}:${port}`
}
