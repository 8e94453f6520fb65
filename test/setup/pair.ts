import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, statSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'
import { sql, until } from './facts.js'
import { copyServer } from './own-server.js'

/** A primary and its streaming standby. */
export interface Pair {
  readonly primary: EmbeddedServer
  readonly standby: EmbeddedServer
  stop(): Promise<void>
}

/**
 * Starts a primary and a standby from two copies of the prepared server, which have the same system identifier. `follow` may return another port for
 * the replication stream, such as the port of a proxy.
 */
export async function startPair(
  follow: (primary: EmbeddedServer) => Promise<number> | number = ({ port }) => port,
): Promise<Pair> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-pair-'))
  // The servers may run as another user.
  chmodSync(directory, 0o755)
  const servers: EmbeddedServer[] = []
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop('immediate')))
    await rm(directory, { recursive: true, force: true })
  }
  try {
    const prepared = inject('preparedServer')
    const [one, other] = [join(directory, 'one'), join(directory, 'other')]
    // A standby must have at least the `max_connections` of its primary, and the data is from the prepared server.
    const settings = { fsync: 'off', full_page_writes: 'off', wal_keep_size: '256MB', max_connections: '200' }
    const primary = await copyServer(prepared, one, settings)
    servers.push(primary)
    // The copy keeps owner and permissions, which the server checks.
    execFileSync('cp', ['-a', '--reflink=auto', prepared.dataDir, other])
    const { uid, gid } = statSync(other)
    writeFileSync(join(other, 'standby.signal'), '')
    chownSync(join(other, 'standby.signal'), uid, gid)
    const { username, password } = new URL(primary.url)
    const source = `host=127.0.0.1 port=${await follow(primary)} user=${username} password=${password}`
    const standby = await startEmbedded({
      binDir: prepared.binDir,
      dataDir: other,
      settings: { ...settings, primary_conninfo: source, wal_retrieve_retry_interval: '100ms' },
    })
    servers.push(standby)
    return { primary, standby, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Waits until the standby has replayed everything that the primary has written so far. */
export async function catchUp({ primary, standby }: Pair): Promise<void> {
  const [now] = await sql<{ lsn: string }>(primary.url, 'select pg_current_wal_flush_lsn()::text as lsn')
  await until('the standby has caught up', async () => {
    const [row] = await sql<{ there: boolean }>(standby.url, 'select pg_last_wal_replay_lsn() >= $1::pg_lsn as there', [
      now!.lsn,
    ])
    return row!.there
  })
}

/** Promotes the standby, independent of the state of the old primary. */
export async function promote({ standby }: Pair): Promise<void> {
  await sql(standby.url, 'select pg_promote(wait => false)')
  await until('the standby has become a primary', async () => {
    const [row] = await sql<{ replica: boolean }>(standby.url, 'select pg_is_in_recovery() as replica')
    return !row!.replica
  })
}

/** Returns the URL of the same database on another server of the pair. */
export function samePlace({ port }: EmbeddedServer, url: string): string {
  const address = new URL(url)
  address.port = String(port)
  return address.href
}

/** Combines the hosts of several URLs into one URL. */
export function severalHosts(...urls: string[]): string {
  const hosts = urls.map((url) => new URL(url).host)
  return urls[0]!.replace(hosts[0]!, hosts.join(','))
}
