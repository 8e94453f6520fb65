// The data directory: PostgreSQL's files, and our files for the password and the log.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, fchownSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { chown, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { EmbeddedError } from './errors.js'
import { checkReachable, type ServerUser, spawnAs } from './user.js'
import type { Watchdog } from './watchdog.js'

export interface ServerStatus {
  pid: number
  startedMs: number
  state: string
}

export class DataDirectory {
  readonly temporary: boolean
  readonly path: string
  readonly #user: ServerUser
  /** Contains the password for initdb. This directory is outside the data directory, because initdb requires an empty data directory. */
  readonly #initDirectory: string | undefined

  /** Runs synchronously, so that the watchdog knows the directory before anything else happens. */
  constructor(path: string | undefined, user: ServerUser) {
    this.#user = user
    this.temporary = path === undefined
    this.path = path === undefined ? mkdtempSync(join(tmpdir(), 'holdfast-data-')) : resolve(path)
    mkdirSync(this.path, { recursive: true })
    if (readdirSync(this.path).length > 0) return
    this.#initDirectory = mkdtempSync(join(tmpdir(), 'holdfast-initdb-'))
    if (user) for (const path of [this.path, this.#initDirectory]) chownSync(path, user.uid, user.gid)
  }

  /** Directories to remove after the server has stopped. */
  get removable(): string[] {
    return [this.temporary ? this.path : [], this.#initDirectory ?? []].flat()
  }

  /**
   * Initializes an empty directory. Returns the password. Without a password, every user on the machine could connect over the loopback
   * interface and run programs as our user.
   */
  async initialise(binDir: string, major: number, watchdog: Watchdog): Promise<string> {
    await checkReachable(this.path, this.#user)
    // This file is written last, so its existence shows that the data directory is complete.
    const passwordFile = join(this.path, 'holdfast.password')
    if (this.#initDirectory === undefined) {
      return readFile(passwordFile, 'utf8').catch((cause) => {
        throw new EmbeddedError(
          'EMBEDDED_DATA_NOT_OURS',
          `${this.path} is neither empty nor a data directory of the embedded server`,
          'If an interrupted start left this directory behind, delete its contents. Otherwise, choose another directory.',
          cause,
        )
      })
    }
    const password = randomBytes(16).toString('hex')
    const given = join(this.#initDirectory, 'password')
    await this.#write(given, password)
    const args = ['-D', this.path, '-U', 'postgres', '--auth=scram-sha-256', `--pwfile=${given}`]
    args.push('--encoding=UTF8', '--locale=C', '--no-instructions')
    // This locale is the same on every system. Unlike the locale C, it supports non-ASCII letters.
    if (major >= 17) args.push('--locale-provider=builtin', '--builtin-locale=C.UTF-8')
    if (this.temporary) args.push('--no-sync')
    await this.#initdb(join(binDir, 'initdb'), args, watchdog)
    await rm(this.#initDirectory, { recursive: true, force: true })
    await this.#write(passwordFile, password)
    return password
  }

  /**
   * Opens the log. The log is a file and not a pipe, because the server must not have to wait until our process reads the output. A log of
   * more than 10 MB is truncated.
   */
  openLog(): number {
    const path = join(this.path, 'server.log')
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    const log = openSync(path, size > 10_000_000 ? 'w' : 'a', 0o600)
    if (this.#user) fchownSync(log, this.#user.uid, this.#user.gid)
    return log
  }

  logTail(): string {
    return readFileSync(join(this.path, 'server.log'), 'utf8').slice(-8192)
  }

  /** Reads a running server's lock file: its process id, start time and state. */
  async status(): Promise<ServerStatus | undefined> {
    const text = await readFile(join(this.path, 'postmaster.pid'), 'utf8').catch(() => '')
    const lines = text.split('\n')
    const pid = Number(lines[0])
    try {
      if (!(pid > 0 && process.kill(pid, 0))) return undefined
    } catch {
      return undefined // The process has crashed.
    }
    return { pid, startedMs: Number(lines[2]) * 1000, state: lines[7]?.trim() ?? '' }
  }

  async remove(): Promise<void> {
    for (const path of this.removable) await rm(path, { recursive: true, force: true, maxRetries: 5 })
  }

  /** Writes a file and makes the server's user its owner. A backup runs as this user and reads all files in the directory. */
  async #write(path: string, text: string): Promise<void> {
    await writeFile(path, text, { mode: 0o600 })
    if (this.#user) await chown(path, this.#user.uid, this.#user.gid)
  }

  #initdb(program: string, args: string[], watchdog: Watchdog): Promise<void> {
    return new Promise((resolve, reject) => {
      const child = execFile(program, args, spawnAs(this.#user), (cause, _stdout, stderr) => {
        watchdog.watch(undefined)
        if (!cause) return resolve()
        const output = stderr.trim() || cause.message
        reject(new EmbeddedError('EMBEDDED_START_FAILED', `initdb failed: ${output}`, undefined, cause))
      })
      watchdog.watch(child.pid)
    })
  }
}
