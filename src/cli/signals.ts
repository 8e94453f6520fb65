// npm (`npx holdfast dev`, `npm start`) starts a command through a shell. npm passes SIGTERM only to the shell, and the
// shell exits without stopping the command. SIGHUP and SIGKILL end only npm. A command that npm started therefore
// checks whether the shell and npm are still running. Without npm, this check would be wrong, because a parent may exit
// for good reasons: `&`, nohup, setsid.
import { readlinkSync, realpathSync } from 'node:fs'
import { parentOf } from './processes.js'

export const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const pollEveryMs = 500

let isStopping = false

/** Calls the listener for each signal until the process ends. */
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
    // Ctrl-C reaches npm, its shell and this process. The exit of npm must not count as a second signal.
    if (!isStopping) process.kill(process.pid, 'SIGTERM')
  }, pollEveryMs)
  timer.unref()
}

/** Returns true if the process runs the node that runs npm. False on a system without /proc. */
function isNpm(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`) === realpathSync(process.env.npm_node_execpath!)
  } catch {
    return false
  }
}
