import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject, onTestFinished } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'

/** A stopped server that is initialised and contains the template database. */
export interface PreparedServer {
  binDir: string | undefined
  dataDir: string
  templateName: string
}

/** Starts a copy of the server in a new directory, which is much faster than the initialisation of another server. */
export function copyServer(
  { binDir, dataDir }: PreparedServer,
  place: string,
  settings: Record<string, string>,
): Promise<EmbeddedServer> {
  // The copy keeps owner and permissions, which the server checks.
  execFileSync('cp', ['-a', '--reflink=auto', dataDir, place])
  return startEmbedded({ binDir, dataDir: place, settings })
}

/** Starts a server for one test, which may restart or configure it. Stopped and removed when the test has finished. */
export async function ownServer(settings: Record<string, string> = { fsync: 'off' }): Promise<EmbeddedServer> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-own-'))
  // The server may run as another user.
  chmodSync(directory, 0o755)
  let server: EmbeddedServer | undefined
  onTestFinished(async () => {
    await server?.stop('immediate')
    await rm(directory, { recursive: true, force: true })
  })
  server = await copyServer(inject('preparedServer'), join(directory, 'data'), settings)
  return server
}

/** Creates a database with Holdfast's schema on the server and returns its URL. */
export function ownDatabase(server: EmbeddedServer, name = 'own'): Promise<string> {
  return server.createDatabase(name, { template: inject('preparedServer').templateName })
}
