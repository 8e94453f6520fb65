import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DataDirectory, ServerStatus } from './data-directory.js'
import { EmbeddedError } from './errors.js'
import { type ServerUser, spawnAs } from './user.js'
import type { Watchdog } from './watchdog.js'

export type StopMode = 'fast' | 'immediate' | 'smart'
const signals = { smart: 'SIGTERM', fast: 'SIGINT', immediate: 'SIGQUIT' } as const

/** Maximum time for a start, long enough for a large data directory's crash recovery. */
const startTimeoutMs = 60_000
/** Time after which a stop becomes more forceful, because a backend may hang or be frozen. */
const stopTimeoutMs = 20_000

/** The main PostgreSQL process. The server does not keep our process alive. When our process exits, the watchdog stops the server. */
export class Postmaster {
  readonly #child: ChildProcess
  readonly #exited: Promise<void>
  readonly #spawnedMs = Date.now()
  #isRunning = true
  #spawnError: Error | undefined

  constructor(binDir: string, data: DataDirectory, args: string[], user: ServerUser, watchdog: Watchdog) {
    const log = data.openLog()
    try {
      const stdio = ['ignore' as const, log, log]
      // Runs in its own session, so that Ctrl-C in a terminal reaches only our process, which may still need the database.
      this.#child = spawn(join(binDir, 'postgres'), ['-D', data.path, ...args], {
        ...spawnAs(user),
        detached: true,
        stdio,
      })
      watchdog.watch(this.#child.pid)
    } finally {
      closeSync(log)
    }
    this.#exited = new Promise((resolve) => {
      const ended = (error?: Error) => {
        if (error) this.#spawnError = error
        this.#isRunning = false
        watchdog.watch(undefined)
        resolve()
      }
      this.#child.once('exit', () => ended()).once('error', ended)
    })
  }

  /** Waits until the server accepts connections. Returns false if the server has exited. */
  async isReady(data: DataDirectory): Promise<boolean> {
    const deadline = Date.now() + startTimeoutMs
    while (this.#isRunning && Date.now() < deadline) {
      const status = await data.status()
      if (status && this.#isOurs(status) && (status.state === 'ready' || status.state === 'standby')) {
        this.#child.unref()
        return true
      }
      await Promise.race([sleep(10), this.#exited])
    }
    if (this.#spawnError) {
      const hint =
        'Check that the file can be executed. If its directory is mounted with noexec, set TMPDIR to another directory.'
      throw new EmbeddedError('EMBEDDED_START_FAILED', this.#spawnError.message, hint, this.#spawnError)
    }
    await this.stop('immediate')
    return false
  }

  /**
   * Stops the server. Can be called several times. If a fast stop times out, an immediate stop follows, and then a kill. A smart stop has
   * no timeout.
   */
  async stop(mode: StopMode): Promise<void> {
    this.#child.ref()
    const modes = mode === 'fast' ? (['fast', 'immediate'] as const) : [mode]
    for (const step of modes) {
      if (!this.#isRunning) return
      this.#child.kill(signals[step])
      if (await this.#exitsWithin(step === 'smart' ? undefined : stopTimeoutMs)) return
    }
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  /**
   * Whether the lock file belongs to our server. Also compares the start time, because in a restarted container our server may have the
   * process id that its predecessor wrote to the lock file.
   */
  #isOurs(status: ServerStatus): boolean {
    return status.pid === this.#child.pid && status.startedMs > this.#spawnedMs - 2_000
  }

  async #exitsWithin(waitMs: number | undefined): Promise<boolean> {
    if (waitMs === undefined) await this.#exited
    const timer = new AbortController()
    await Promise.race([this.#exited, sleep(waitMs, undefined, { signal: timer.signal }).catch(() => {})])
    timer.abort()
    return !this.#isRunning
  }
}
