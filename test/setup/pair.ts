import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, statSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'
import { sql, until } from './facts.js'
import { copyServer } from './own-server.js'

/** A primary and the standby that follows it. */
export interface Pair {
  readonly primary: EmbeddedServer
  readonly standby: EmbeddedServer
  stop(): Promise<void>
}

/**
 * Starts both, from two copies of the prepared server: they are one system. `follow` may lead the stream elsewhere, such as
 * through a proxy: it is given the primary, and answers with the port.
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
    // A standby must have room for as many connections as its primary had, which the prepared server was.
    const settings = { fsync: 'off', full_page_writes: 'off', wal_keep_size: '256MB', max_connections: '200' }
    const primary = await copyServer(prepared, one, settings)
    servers.push(primary)
    // With owner and rights, which the server checks.
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

/** Waits until the standby has all that the primary has written until now. */
export async function catchUp({ primary, standby }: Pair): Promise<void> {
  const [now] = await sql<{ lsn: string }>(primary.url, 'select pg_current_wal_flush_lsn()::text as lsn')
  await until('the standby has it', async () => {
    const [row] = await sql<{ there: boolean }>(standby.url, 'select pg_last_wal_replay_lsn() >= $1::pg_lsn as there', [
      now!.lsn,
    ])
    return row!.there
  })
}

/** The standby becomes a primary, whatever the old one is about. */
export async function promote({ standby }: Pair): Promise<void> {
  await sql(standby.url, 'select pg_promote(wait => false)')
  await until('it is a primary', async () => {
    const [row] = await sql<{ replica: boolean }>(standby.url, 'select pg_is_in_recovery() as replica')
    return !row!.replica
  })
}

/** The same database, on another server of the system. */
export function samePlace({ port }: EmbeddedServer, url: string): string {
  const address = new URL(url)
  address.port = String(port)
  return address.href
}

/** One URL of the hosts of all. */
export function severalHosts(...urls: string[]): string {
  const hosts = urls.map((url) => new URL(url).host)
  return urls[0]!.replace(hosts[0]!, hosts.join(','))
}
