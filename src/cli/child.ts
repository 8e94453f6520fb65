import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import {
  descendantsOf,
  isTerminalsForeground,
  listProcesses,
  type Process,
  sendSignal,
  stillRunning,
} from './processes.js'

/** What a wrapper passes on. SIGTSTP and SIGCONT of a terminal reach the whole process group by themselves. */
export const forwardedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

/** As a shell reports the end by a signal. */
export function statusOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

/**
 * A command that runs in our place: it has our stdin, stdout and stderr, gets our signals, and its status is ours. It
 * stays in our process group, so that the terminal, and whoever ends the group, reaches both.
 */
export class Child {
  /** Its status, or 128 + n when a signal ended it; rejects when it could not be started. */
  readonly ended: Promise<number>
  readonly #process: ChildProcess
  #stopping = false

  constructor([command, ...args]: readonly [string, ...string[]], extraEnv: NodeJS.ProcessEnv) {
    this.#process = spawn(command, args, { stdio: 'inherit', env: { ...process.env, ...extraEnv } })
    this.ended = new Promise((resolve, reject) => {
      this.#process.once('error', reject)
      this.#process.once('exit', (status, signal) => resolve(signal ? statusOfSignal(signal) : status!))
    })
  }

  forward(signal: NodeJS.Signals): void {
    const sentByTerminal = (signal === 'SIGINT' || signal === 'SIGQUIT') && isTerminalsForeground()
    // The child got it from the terminal already, and a second one often means "at once".
    if (!sentByTerminal) this.#process.kill(signal)
  }

  /**
   * SIGTERM now, SIGKILL after a while; to the child and to all that it has started, for a shell that ends leaves its
   * commands running. Resolves when all of them are gone.
   */
  async stop(killAfterMs: number): Promise<void> {
    if (this.#stopping) return
    this.#stopping = true
    const pid = this.#process.pid!
    const targets = descendantsOf(pid)
    this.#process.kill('SIGTERM')
    for (const each of targets) if (each.pid !== pid) sendSignal(each, 'SIGTERM')
    if (await this.#allGone(targets, killAfterMs)) return
    const now = listProcesses()
    // What they have started meanwhile goes with them.
    for (const each of stillRunning(now, targets).flatMap(({ pid }) => descendantsOf(pid, now)))
      sendSignal(each, 'SIGKILL')
    this.#process.kill('SIGKILL')
  }

  async #allGone(targets: readonly Process[], withinMs: number): Promise<boolean> {
    const until = performance.now() + withinMs
    for (;;) {
      const isRunning = this.#process.exitCode === null && this.#process.signalCode === null
      if (!isRunning && stillRunning(listProcesses(), targets).length === 0) return true
      const leftMs = until - performance.now()
      if (leftMs <= 0) return false
      await new Promise((resolve) => setTimeout(resolve, Math.min(50, leftMs)))
    }
  }
}
