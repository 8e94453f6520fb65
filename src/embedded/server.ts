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
  /** Where to keep the data, over many starts. Without it a temporary directory is used, and removed at the stop. */
  dataDir?: string | undefined
  /** The port on 127.0.0.1. Without it, or with 0, a free one is chosen. */
  port?: number | undefined
  /** PostgreSQL's own settings, such as `{ shared_preload_libraries: 'pg_stat_statements', fsync: 'off' }`. */
  settings?: Record<string, string> | undefined
  /** The directory of another PostgreSQL's programs (14 or later), such as `/usr/lib/postgresql/15/bin`. */
  binDir?: string | undefined
}

/** How long to try again, and how long when a predecessor in the same data directory is on its way out. */
const retryTimeoutMs = 1_000
const predecessorTimeoutMs = 20_000

/** A running PostgreSQL. Made by `startEmbedded`. */
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

  /** The address of the database `postgres`, for a superuser. The password is random, and new for each data directory. */
  get url(): string {
    return this.#urlOf('postgres')
  }

  get port(): number {
    return this.#port
  }

  get dataDir(): string {
    return this.#data.path
  }

  /** Such as `18.4`. */
  get version(): string {
    return this.#version
  }

  /**
   * Ends the server, and a temporary directory with it. `fast` ends every session and shuts down cleanly, `immediate` is
   * like a crash, `smart` waits for the clients to leave. May be called again: all calls end with the first.
   */
  stop(mode: StopMode = 'fast'): Promise<void> {
    this.#stopped ??= this.#stop(mode)
    return this.#stopped
  }

  /** Stops and starts again, with the same data, port and settings. */
  restart(mode: StopMode = 'fast'): Promise<void> {
    if (this.#stopped) return Promise.reject(new ClosedError('The embedded server'))
    const restart = this.#restarts.then(async () => {
      await this.#postmaster?.stop(mode)
      await this.#launch(this.#port)
    })
    this.#restarts = restart.catch(() => {}) // Whoever asked for it is told.
    return restart
  }

  /** Makes a database, a copy of `template` when given, and returns its address. */
  async createDatabase(name: string, options: { template?: string | undefined } = {}): Promise<string> {
    const client = new pg.Client({ connectionString: this.url })
    client.on('error', () => {}) // The statement that fails says it.
    await client.connect()
    try {
      const template = options.template === undefined ? '' : ` template ${client.escapeIdentifier(options.template)}`
      await client.query(`create database ${client.escapeIdentifier(name)}${template}`)
    } finally {
      await client.end()
    }
    return this.#urlOf(name)
  }

  /** The end of what the server wrote to its log, also after the stop. */
  logTail(): string {
    try {
      return this.#data.logTail()
    } catch {
      return this.#finalLog // A temporary directory is gone by then.
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

  /** PostgreSQL itself judges whether directory and port are free; we only find out, afterwards, which of them was not. */
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
      const message = `Process ${otherPid} already runs a server in ${this.dataDir}`
      return new EmbeddedError('EMBEDDED_DATA_IN_USE', message, 'Stop it first, or choose another directory.')
    }
    if (isPortTaken) {
      const message = `Something else listens on 127.0.0.1:${this.#port}`
      return new EmbeddedError('EMBEDDED_PORT_TAKEN', message, 'Give another port, or none to have a free one chosen.')
    }
    return new EmbeddedError('EMBEDDED_START_FAILED', `PostgreSQL did not start. It said:\n${this.logTail()}`)
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
    return `postgres://holdfast:${this.#password}@127.0.0.1:${this.#port}/${encodeURIComponent(database)}`
  }
}
