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

/**
 * Signals that `lock run` forwards. SIGTSTP and SIGCONT are not in the list, because a terminal sends them to the whole
 * group.
 */
export const forwardedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

/** Returns the exit code that shells use for a process that was ended by a signal. */
export function statusOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

/**
 * Child process that runs a command on behalf of this process. The child inherits stdin, stdout and stderr, and receives the forwarded
 * signals. The child stays in the same process group, so that a signal to the group reaches both processes.
 */
export class Child {
  /** Resolves with the exit code, or with 128 + n if signal n ended the command. Rejects if the command could not be started. */
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
    // The terminal has already sent the signal to the child. Many programs treat a second signal as "exit immediately".
    if (!sentByTerminal) this.#process.kill(signal)
  }

  /**
   * Sends SIGTERM to the child and its descendants, and SIGKILL after `killAfterMs`. The descendants must be signaled too, because a shell
   * that is killed leaves its commands running. Resolves when all these processes have ended or were killed.
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
    // Also kills the processes that the child and its descendants have started since SIGTERM was sent.
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
