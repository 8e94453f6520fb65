import { statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { HoldfastError, Lease, Lock } from '../../index.js'
import type { Child } from '../child.js'
import { printMessage } from '../failure.js'

/** Exit codes in addition to the command's own. The last three mean the same as in env(1), nice(1) and timeout(1). */
export const runExitCode = { lost: 123, busy: 124, beforeChild: 125, notExecutable: 126, notFound: 127 } as const

export interface CommandRun {
  /** Maximum time to wait for the name. Undefined: no limit. */
  readonly waitMs: number | undefined
  readonly env?: NodeJS.ProcessEnv
  /** Signal that stops the command, in addition to the lock's signal. */
  readonly otherSignal?: AbortSignal
}

export interface CommandResult {
  readonly status: number
  /** True if the command ended on its own while this process still held the lock. */
  readonly ranToEnd: boolean
}

/** Waits until the child has ended. Stops the child if the lock is lost or the other signal aborts. */
export async function supervise(
  child: Child,
  command: string,
  lock: Lock | Lease,
  killAfterMs: number,
  otherSignal?: AbortSignal,
): Promise<CommandResult> {
  let stopped: Promise<void> | undefined
  const held = otherSignal ? AbortSignal.any([lock.signal, otherSignal]) : lock.signal
  const stop = () => {
    printMessage(`holdfast: ${(held.reason as HoldfastError).message}; stopping the command`)
    stopped ??= child.stop(killAfterMs)
  }
  held.addEventListener('abort', stop)
  if (held.aborted) stop()
  const ended = await child.ended.then(
    (status) => ({ status, ranToEnd: true }),
    (error) => ({ status: notStarted(command, error), ranToEnd: false }),
  )
  held.removeEventListener('abort', stop)
  // The child's descendants may outlive the child, but they must not outlive the lock.
  await stopped
  // Checks the lock instead of its signal, because the abort event may not have fired yet if this process was frozen.
  if (!lock.held || otherSignal?.aborted) return { status: runExitCode.lost, ranToEnd: false }
  // A release request stops the command while the lock is still held. The command's work may then be incomplete.
  return stopped && ended.status !== 0 ? { ...ended, ranToEnd: false } : ended
}

function notStarted(command: string, error: NodeJS.ErrnoException): number {
  const code = error.code === 'EACCES' && !isInPath(command) ? 'ENOENT' : error.code
  const why: Record<string, string> = { ENOENT: 'was not found', EACCES: 'may not be executed' }
  printMessage(`holdfast: ${JSON.stringify(command)} ${why[code!] ?? `could not be started: ${error.message}`}`)
  if (code === 'ENOENT') return runExitCode.notFound
  return code === 'EAGAIN' || code === 'ENOMEM' ? runExitCode.beforeChild : runExitCode.notExecutable
}

/**
 * Returns true if a directory in PATH contains the command. If this process is not allowed to search one of these
 * directories, execvp(3) reports EACCES for a missing command, whereas shells report that the command was not found.
 */
function isInPath(command: string): boolean {
  if (command.includes('/')) return true
  return (process.env.PATH ?? '').split(delimiter).some((directory) => {
    try {
      return statSync(join(directory, command)).isFile()
    } catch {
      return false
    }
  })
}
