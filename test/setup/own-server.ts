import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject, onTestFinished } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'

/** A server that is initialised, has the template, and does not run. */
export interface PreparedServer {
  binDir: string | undefined
  dataDir: string
  templateName: string
}

/** Starts a copy of it, in a directory that is not there yet: much quicker than to initialise another. */
export function copyServer(
  { binDir, dataDir }: PreparedServer,
  place: string,
  settings: Record<string, string>,
): Promise<EmbeddedServer> {
  // With owner and rights, which the server checks.
  execFileSync('cp', ['-a', '--reflink=auto', dataDir, place])
  return startEmbedded({ binDir, dataDir: place, settings })
}

/** A server of the test's own, to restart or to set otherwise. Stopped and taken away when the test has finished. */
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

/** The address of a database of it, with Holdfast in it. */
export function ownDatabase(server: EmbeddedServer, name = 'own'): Promise<string> {
  return server.createDatabase(name, { template: inject('preparedServer').templateName })
}
