// npm starts a command through a shell, for example with `npx holdfast dev` or `npm start`. npm forwards SIGTERM only
// to the shell, and the shell exits without stopping the command. SIGHUP and SIGKILL end only npm. Therefore, a command
// that npm started checks whether the shell and npm are still running. The check is limited to npm, because other
// parent processes may exit for good reasons, such as `&`, nohup or setsid.
import { readlinkSync, realpathSync } from 'node:fs'
import { parentOf } from './processes.js'

export const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const pollEveryMs = 500

let isStopping = false

/** Calls the listener for each of these signals until the process ends. */
export function onSignals<Signal extends NodeJS.Signals>(
  signals: readonly Signal[],
  listener: (signal: Signal) => void,
): void {
  for (const signal of signals) {
    process.on(signal, () => {
      if (stopSignals.some((stop) => stop === signal)) isStopping = true
      listener(signal)
    })
  }
}

/** Sends SIGTERM to this process when npm or its shell has ended. Must be called when the process starts. */
export function stopWithNpm(): void {
  if (process.env.npm_execpath === undefined) return
  const parent = process.ppid
  const above = isNpm(parent) ? undefined : parentOf(parent)
  const npm = above !== undefined && isNpm(above) ? above : undefined
  const timer = setInterval(() => {
    if (process.ppid === parent && (npm === undefined || parentOf(parent) === npm)) return
    clearInterval(timer)
    // Ctrl-C reaches npm, its shell and this process. npm's exit must not be treated as a second signal.
    if (!isStopping) process.kill(process.pid, 'SIGTERM')
  }, pollEveryMs)
  timer.unref()
}

/** Returns true if the process is the Node.js process that runs npm. Returns false on a system without /proc. */
function isNpm(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`) === realpathSync(process.env.npm_node_execpath!)
  } catch {
    return false
  }
}
