import { statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { HoldfastError, Lease, Lock } from '../../index.js'
import type { Child } from '../child.js'
import { printMessage } from '../failure.js'

/** What `lock run` adds to the child's own status; the last three as env(1), nice(1) and timeout(1) have them. */
export const runExitCode = { lost: 123, busy: 124, beforeChild: 125, notExecutable: 126, notFound: 127 } as const

/** How the command is to be run. */
export interface CommandRun {
  /** How long to wait for the name; undefined: without limit. */
  readonly waitMs: number | undefined
  readonly env?: NodeJS.ProcessEnv
  /** What it stands on beside the lock. */
  readonly otherSignal?: AbortSignal
}

export interface CommandResult {
  readonly status: number
  /** Whether the command ran to its end, while the lock was held and nobody told it to stop. */
  readonly ranToEnd: boolean
}

/** Lets the child run, for as long as the lock allows, and what else it stands on. */
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
  // What the child has started may outlive it, and must not outlive the lock.
  await stopped
  // Asked of the lock and not of the signal: when all of us were frozen, no event has spoken yet.
  if (!lock.held || otherSignal?.aborted) return { status: runExitCode.lost, ranToEnd: false }
  // Somebody may have asked for the name only: the lock was held to the end, but the work is not done.
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
 * Whether a command is a file in a directory of PATH. execvp(3) reports EACCES for a command that is in none of them when this
 * process may not search one of them; shells say that it was not found.
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
