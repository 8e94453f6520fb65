// Runs the built command line as users do: in a separate process.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, onTestFinished } from 'vitest'
import { typescript } from '../setup/typescript.js'

export const bin = fileURLToPath(new URL('../../dist/cli/bin.js', import.meta.url))

const longestMs = 20_000

export interface ExitResult {
  /** Null if a signal ended the process. */
  status: number | null
  stdout: string
  stderr: string
}

export class Running {
  readonly process: ChildProcess
  readonly ended: Promise<ExitResult>
  stdout = ''
  stderr = ''

  constructor(command: string, args: readonly string[], env: NodeJS.ProcessEnv, cwd?: string, withinMs = longestMs) {
    // In its own session, so that the terminal that runs the tests has no effect.
    this.process = spawn(command, args, { env: { ...cleanEnv(), ...env }, cwd, detached: true })
    this.process.stdout!.on('data', (chunk) => {
      this.stdout += chunk
    })
    this.process.stderr!.on('data', (chunk) => {
      this.stderr += chunk
    })
    this.process.stdin!.on('error', () => {})
    // `close` waits until every process that writes to stdout has ended. No child process may outlive the command.
    this.ended = new Promise((resolve, reject) => {
      const tooLong = setTimeout(() => {
        this.killGroup()
        const line = [command, ...args].join(' ')
        reject(new Error(`Still running after ${withinMs} ms: ${line}. Output:\n${this.stdout}${this.stderr}`))
      }, withinMs)
      this.process.once('close', (status) => {
        clearTimeout(tooLong)
        resolve({ status, stdout: this.stdout, stderr: this.stderr })
      })
    })
    this.ended.catch(() => {})
  }

  get pid(): number {
    return this.process.pid!
  }

  type(text: string): void {
    this.process.stdin!.write(text)
  }

  /** Waits until stdout matches the pattern and returns the match. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    await expect.poll(() => this.stdout, { timeout: 20_000, interval: 20 }).toMatch(pattern)
    return pattern.exec(this.stdout)!
  }

  killGroup(): void {
    try {
      process.kill(-this.pid, 'SIGKILL')
    } catch {
      // The process has already ended.
    }
  }
}

const started: Running[] = []
afterEach(() => {
  for (const running of started.splice(0)) running.killGroup()
})

/** Starts `holdfast` with these arguments. `withinMs` limits the time of the whole run. */
export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}, withinMs?: number): Running {
  return startProgram(process.execPath, [bin, ...args], env, undefined, withinMs)
}

/** Starts `holdfast` on a terminal of 80 by 24 that script(1) creates. Typed text arrives as if from a keyboard. */
export function startOnTerminal(args: readonly string[], env: NodeJS.ProcessEnv = {}, withinMs?: number): Running {
  const words = [process.execPath, bin, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  // A shell runs between script(1) and the command: script(1) resumes its own child when that child is stopped. Ctrl-C must not
  // end the shell.
  const script = `trap : INT; stty cols 80 rows 24; ${words}; exit $?`
  const terminal = { TERM: 'xterm-256color', SHELL: '/bin/sh', ...env }
  return startProgram('script', ['-qec', script, '/dev/null'], terminal, undefined, withinMs)
}

/**
 * Starts a server that accepts connections and never responds. Returns its URL, and a promise of its first connection.
 */
export async function startSilentServer(): Promise<{ url: string; connected: Promise<unknown> }> {
  const server = createServer((socket) => socket.on('error', () => {}).resume())
  const connected = once(server, 'connection')
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { url: `postgres://app@127.0.0.1:${(server.address() as AddressInfo).port}/app`, connected }
}

export function startProgram(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  cwd?: string,
  withinMs?: number,
): Running {
  const running = new Running(command, args, env, cwd, withinMs)
  started.push(running)
  return running
}

/** Runs `holdfast` in its own process until it ends, with an empty stdin. */
export function runAlone(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ExitResult> {
  const running = start(args, env)
  running.process.stdin!.end()
  return running.ended
}

/** Returns true for a command that needs its own process: it starts programs that inherit stdout, or it handles signals. */
function needsOwnProcess(args: readonly string[]): boolean {
  return args.includes('--') || ['bench', 'demo', 'dev', 'work'].includes(args[0]!)
}

/** Runs `holdfast` until it ends, with an empty stdin, in a reused process where possible. See host.ts. */
export async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ExitResult> {
  if (needsOwnProcess(args)) return runAlone(args, env)
  const host = idle.pop() ?? new Host()
  const ended = await host.run(args, { ...cleanEnv(), ...env })
  idle.push(host)
  return ended
}

const idle: Host[] = []

class Host {
  readonly #process = fork(fileURLToPath(new URL('./host.ts', import.meta.url)), {
    execArgv: typescript,
    env: cleanEnv(),
    detached: true,
  })

  constructor() {
    // A later call must not get a dead host.
    this.#process.once('exit', () => {
      if (idle.includes(this)) idle.splice(idle.indexOf(this), 1)
    })
    // The host does not keep the test process alive, and ends with the test process.
    this.#process.unref()
    this.#process.channel!.unref()
  }

  run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<ExitResult> {
    this.#process.channel?.ref()
    return new Promise<ExitResult>((resolve, reject) => {
      const end = () => {
        clearTimeout(tooLong)
        this.#process.off('message', onMessage).off('exit', onExit)
        this.#process.channel?.unref()
      }
      const onMessage = (ended: unknown) => {
        end()
        resolve(ended as ExitResult)
      }
      const onExit = (code: number | null, signal: string | null) => {
        end()
        reject(new Error(`The host ended with ${code ?? signal} while it ran holdfast ${args.join(' ')}`))
      }
      const tooLong = setTimeout(() => {
        this.#process.kill('SIGKILL')
        end()
        reject(new Error(`Still running after ${longestMs} ms: holdfast ${args.join(' ')}`))
      }, longestMs)
      this.#process.once('message', onMessage).once('exit', onExit)
      this.#process.send({ args, env }, () => {})
    })
  }
}

/**
 * Removes the settings of the person who runs the tests. Also removes CI: Node.js assumes that a terminal in CI has no colours.
 */
function cleanEnv(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(CI|DATABASE_URL|HOLDFAST_.*|PG.*|NO_COLOR|FORCE_COLOR|NODE_OPTIONS|VITEST.*)$/.test(name),
  )
  return Object.fromEntries(kept)
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Polls a fact until it matches the expectation. */
export function eventually<T>(fact: () => T | Promise<T>) {
  return expect.poll(fact, { timeout: 20_000, interval: 25 })
}
