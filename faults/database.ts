// The database of a run: an embedded PostgreSQL or a Patroni cluster, each with PgBouncer if it is installed.
import { join } from 'node:path'
import { type EmbeddedServer, startEmbedded } from 'holdfast/embedded'
import { startCluster } from '../examples/cluster/cluster.ts'
import { Disk } from './disk.ts'
import { hasPgBouncer, type Pooler, startPooler } from './pooler.ts'

/** Size of the embedded server's disk, if the plan fills it. More than the data and the WAL files of a long run. */
const diskMegabytes = 4_096

export interface Database {
  /** URL for the fleet, whose role owns the database. */
  url: string
  pooledUrl: string | undefined
  /** URL for the nemesis and the judge: as a superuser, if there is one. */
  adminUrl: string
  pooler: Pooler | undefined
  /** Undefined for a Patroni cluster. */
  server: EmbeddedServer | undefined
  disk: Disk | undefined
  patroni: PatroniCluster | undefined
}

export type PatroniCluster = Awaited<ReturnType<typeof startCluster>>

export interface EmbeddedSettings {
  settings: Record<string, string>
  binDir: string | undefined
  /** Whether the data directory is on its own small disk. */
  hasDisk: boolean
  /** Maximum number of PgBouncer's connections to the server. */
  backends: number
}

/** Returns the URL of the database on a server, as a superuser or as the fleet's role. */
export function urlOf(server: EmbeddedServer, role?: string): string {
  const url = new URL(server.url)
  url.pathname = '/app'
  if (role) [url.username, url.password] = [role, role]
  return url.href
}

/** Starts an embedded server. Calls `onClose` with functions that stop the parts, to be called in the reverse order. */
export async function openEmbedded(
  { settings, binDir, hasDisk, backends }: EmbeddedSettings,
  onClose: (close: () => unknown) => void,
): Promise<Database> {
  const disk = hasDisk ? Disk.mount(diskMegabytes) : undefined
  if (disk) onClose(() => disk.unmount())
  const server = await startEmbedded({ settings, binDir, ...(disk && { dataDir: join(disk.path, 'data') }) })
  onClose(() => server.stop('immediate'))
  await server.createDatabase('app')
  const url = urlOf(server, 'app')
  const pooler = hasPgBouncer ? await startPooler(url, { roundRobin: true, backends }) : undefined
  onClose(() => pooler?.stop())
  return { url, pooledUrl: pooler?.through(url), adminUrl: urlOf(server), pooler, server, disk, patroni: undefined }
}

/** Starts a cluster of three nodes behind HAProxy. */
export async function openPatroni(onClose: (close: () => unknown) => void): Promise<Database> {
  const patroni = await startCluster()
  onClose(() => patroni.stop())
  const { url, pooledUrl } = patroni
  return { url, pooledUrl, adminUrl: url, pooler: undefined, server: undefined, disk: undefined, patroni }
}
