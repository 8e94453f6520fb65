// Runs the built command line as its users do: from outside.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, expect } from 'vitest'
import { typescript } from '../setup/typescript.js'

export const bin = fileURLToPath(new URL('../../dist/cli/bin.js', import.meta.url))

const longestMs = 20_000

export interface Ended {
  /** Null when a signal ended it. */
  status: number | null
  stdout: string
  stderr: string
}

export class Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''

  constructor(command: string, args: readonly string[], env: NodeJS.ProcessEnv, cwd?: string, withinMs = longestMs) {
    // In a session of its own: the terminal of whoever runs the tests must not play a part.
    this.process = spawn(command, args, { env: { ...cleanEnv(), ...env }, cwd, detached: true })
    this.process.stdout!.on('data', (chunk) => {
      this.stdout += chunk
    })
    this.process.stderr!.on('data', (chunk) => {
      this.stderr += chunk
    })
    this.process.stdin!.on('error', () => {})
    // Its end is the end of all that writes to its stdout, so nothing it started may linger either.
    this.ended = new Promise((resolve, reject) => {
      const tooLong = setTimeout(() => {
        this.killGroup()
        const line = [command, ...args].join(' ')
        reject(new Error(`Still running after ${withinMs} ms: ${line}, having said:\n${this.stdout}${this.stderr}`))
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

  /** Waits until it has said something on stdout, and answers with the match. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    await expect.poll(() => this.stdout, { timeout: 20_000, interval: 20 }).toMatch(pattern)
    return pattern.exec(this.stdout)!
  }

  killGroup(): void {
    try {
      process.kill(-this.pid, 'SIGKILL')
    } catch {
      // Gone already.
    }
  }
}

const started: Running[] = []
afterEach(() => {
  for (const running of started.splice(0)) running.killGroup()
})

/** Starts `holdfast` with these words. It may take so long. */
export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}, withinMs?: number): Running {
  return startProgram(process.execPath, [bin, ...args], env, undefined, withinMs)
}

/** The same on a terminal of 80 by 24, made by script(1); what is typed arrives as if from a keyboard. */
export function startOnTerminal(args: readonly string[], env: NodeJS.ProcessEnv = {}, withinMs?: number): Running {
  const words = [process.execPath, bin, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  // A shell stands between, because script(1) resumes its own child when that is stopped; Ctrl-C must not end the shell.
  const script = `trap : INT; stty cols 80 rows 24; ${words}; exit $?`
  const terminal = { TERM: 'xterm-256color', SHELL: '/bin/sh', ...env }
  return startProgram('script', ['-qec', script, '/dev/null'], terminal, undefined, withinMs)
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

/** Runs `holdfast` to its end, with nothing on stdin, in a process of its own. */
export function runAlone(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  const running = start(args, env)
  running.process.stdin!.end()
  return running.ended
}

/** What has a say in its own process: it starts programs that take over its stdout, or listens for signals. */
function needsItsOwn(args: readonly string[]): boolean {
  return args.includes('--') || ['bench', 'demo', 'dev', 'work'].includes(args[0]!)
}

/** Runs `holdfast` to its end, with nothing on stdin, in a process that has run others where it can; see host.ts. */
export async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  if (needsItsOwn(args)) return runAlone(args, env)
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
    // Whoever comes next would find it dead.
    this.#process.once('exit', () => {
      if (idle.includes(this)) idle.splice(idle.indexOf(this), 1)
    })
    // It must not keep the process of the tests, and goes with it.
    this.#process.unref()
    this.#process.channel!.unref()
  }

  run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ended> {
    this.#process.channel?.ref()
    return new Promise<Ended>((resolve, reject) => {
      const end = () => {
        clearTimeout(tooLong)
        this.#process.off('message', heard).off('exit', gone)
        this.#process.channel?.unref()
      }
      const heard = (ended: unknown) => {
        end()
        resolve(ended as Ended)
      }
      const gone = (code: number | null, signal: string | null) => {
        end()
        reject(new Error(`The host ended with ${code ?? signal} while it ran holdfast ${args.join(' ')}`))
      }
      const tooLong = setTimeout(() => {
        this.#process.kill('SIGKILL')
        end()
        reject(new Error(`Still running after ${longestMs} ms: holdfast ${args.join(' ')}`))
      }, longestMs)
      this.#process.once('message', heard).once('exit', gone)
      this.#process.send({ args, env }, () => {})
    })
  }
}

/** What the person who runs the tests has set must not matter; nor that it is CI, of whose terminals Node thinks they have no colours. */
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

/** A wait for a fact. */
export function eventually<T>(fact: () => T | Promise<T>) {
  return expect.poll(fact, { timeout: 20_000, interval: 25 })
}
