import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { ClosedError } from '../base/index.js'
import { findBinaries } from './binaries.js'
import { DataDirectory } from './data-directory.js'
import { EmbeddedError } from './errors.js'
import { findFreePort, isPortFree } from './ports.js'
import { Postmaster, type StopMode } from './postmaster.js'
import { checkReachable, chooseUser, type ServerUser, spawnAs } from './user.js'
import { Watchdog } from './watchdog.js'

export interface EmbeddedOptions {
  /** Data directory, which is kept when the server stops. Default: a temporary directory, which is removed when the server stops. */
  dataDir?: string | undefined
  /** Port on 127.0.0.1. By default, or if the value is 0, the server uses a free port. */
  port?: number | undefined
  /** PostgreSQL settings, such as `{ shared_preload_libraries: 'pg_stat_statements', fsync: 'off' }`. */
  settings?: Record<string, string> | undefined
  /**
   * Directory with a different PostgreSQL installation's programs (14 or later), such as `/usr/lib/postgresql/15/bin`.
   */
  binDir?: string | undefined
}

/** Maximum total time of repeated start attempts. */
const retryTimeoutMs = 1_000
/** Maximum total time of repeated start attempts while an earlier server in the same data directory is stopping. */
const predecessorTimeoutMs = 20_000

/** A running PostgreSQL server. Created by `startEmbedded`. */
export class EmbeddedServer implements AsyncDisposable {
  readonly #options: EmbeddedOptions
  readonly #user: ServerUser
  readonly #binDir: string
  readonly #data: DataDirectory
  readonly #watchdog: Watchdog
  #version = ''
  #port = 0
  #password = ''
  #postmaster: Postmaster | undefined
  #finalLog = ''
  #restarts: Promise<void> = Promise.resolve()
  #stopped: Promise<void> | undefined

  /** @internal */
  static async start(options: EmbeddedOptions): Promise<EmbeddedServer> {
    const user = await chooseUser(options.dataDir)
    const binDir = options.binDir ?? (await findBinaries(user))
    await checkReachable(join(binDir, 'postgres'), user)
    const server = new EmbeddedServer(options, user, binDir)
    try {
      await server.#prepare()
      await server.#launch(options.port || undefined)
      return server
    } catch (error) {
      await server.stop('immediate')
      throw error
    }
  }

  private constructor(options: EmbeddedOptions, user: ServerUser, binDir: string) {
    this.#options = options
    this.#user = user
    this.#binDir = binDir
    this.#data = new DataDirectory(options.dataDir, user)
    this.#watchdog = new Watchdog(this.#data)
  }

  /** URL that connects to the `postgres` database as the superuser. Each data directory has its own random password. */
  get url(): string {
    return this.#urlOf('postgres')
  }

  get port(): number {
    return this.#port
  }

  get dataDir(): string {
    return this.#data.path
  }

  /** PostgreSQL version, such as `18.4`. */
  get version(): string {
    return this.#version
  }

  /**
   * Stops the server and removes a temporary directory. `fast` ends all sessions and shuts down cleanly. `immediate` stops the server as a
   * crash would. `smart` waits until all clients have disconnected. Later calls wait for the first call.
   */
  stop(mode: StopMode = 'fast'): Promise<void> {
    this.#stopped ??= this.#stop(mode)
    return this.#stopped
  }

  /** Restarts the server with the same data, port and settings. */
  restart(mode: StopMode = 'fast'): Promise<void> {
    if (this.#stopped) return Promise.reject(new ClosedError('The embedded server'))
    const restart = this.#restarts.then(async () => {
      await this.#postmaster?.stop(mode)
      await this.#launch(this.#port)
    })
    this.#restarts = restart.catch(() => {}) // The caller receives the error.
    return restart
  }

  /** Creates a database, as a copy of `template` if given. Returns the URL of the new database. */
  async createDatabase(name: string, options: { template?: string | undefined } = {}): Promise<string> {
    const client = new pg.Client({ connectionString: this.url })
    client.on('error', () => {}) // The failing statement reports the error.
    await client.connect()
    try {
      const template = options.template === undefined ? '' : ` template ${client.escapeIdentifier(options.template)}`
      await client.query(`create database ${client.escapeIdentifier(name)}${template}`)
    } finally {
      await client.end()
    }
    return this.#urlOf(name)
  }

  /** Returns the end of the server log. Also works after the server has stopped. */
  logTail(): string {
    try {
      return this.#data.logTail()
    } catch {
      return this.#finalLog // The temporary directory was removed.
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #prepare(): Promise<void> {
    const { stdout } = await promisify(execFile)(join(this.#binDir, 'postgres'), ['--version'], spawnAs(this.#user))
    this.#version = /\d+(\.\d+)?\S*/.exec(stdout)?.[0] ?? ''
    this.#password = await this.#data.initialise(this.#binDir, Number.parseInt(this.#version, 10), this.#watchdog)
  }

  /**
   * Starts the server. PostgreSQL itself checks whether the directory and the port are free. After a failure, this method determines which
   * of the two is not free.
   */
  async #launch(wantedPort: number | undefined): Promise<void> {
    const begin = Date.now()
    for (;;) {
      this.#port = wantedPort ?? (await findFreePort())
      this.#postmaster = new Postmaster(this.#binDir, this.#data, this.#settings(), this.#user, this.#watchdog)
      if (await this.#postmaster.isReady(this.#data)) return

      const other = await this.#data.status()
      const isTaken = !other && !(await isPortFree(this.#port))
      const mayRetry = other !== undefined || (isTaken && wantedPort === undefined)
      const timeoutMs = other?.state === 'stopping' ? predecessorTimeoutMs : retryTimeoutMs
      if (!mayRetry || Date.now() - begin > timeoutMs) throw this.#startError(other?.pid, isTaken)
      await sleep(50)
    }
  }

  #settings(): string[] {
    const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', ...this.#options.settings }
    return Object.entries({ ...settings, port: this.#port }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  }

  #startError(otherPid: number | undefined, isPortTaken: boolean): EmbeddedError {
    if (otherPid !== undefined) {
      const message = `Process ${otherPid} is already running a server in ${this.dataDir}`
      return new EmbeddedError('EMBEDDED_DATA_IN_USE', message, 'Stop that server first, or choose another directory.')
    }
    if (isPortTaken) {
      const message = `Another process is already listening on 127.0.0.1:${this.#port}`
      return new EmbeddedError(
        'EMBEDDED_PORT_TAKEN',
        message,
        'Choose another port, or omit the port to use a free one.',
      )
    }
    return new EmbeddedError('EMBEDDED_START_FAILED', `PostgreSQL did not start. The server log:\n${this.logTail()}`)
  }

  async #stop(mode: StopMode): Promise<void> {
    await this.#restarts
    await this.#postmaster?.stop(mode)
    this.#finalLog = this.logTail()
    try {
      await this.#data.remove()
    } finally {
      await this.#watchdog.close()
    }
  }

  #urlOf(database: string): string {
    return `postgres://postgres:${this.#password}@127.0.0.1:${this.#port}/${encodeURIComponent(database)}`
  }
}
