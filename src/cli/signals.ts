// When this process is asked to stop: by a signal, or because the npm that started it is gone.
//
// npm (`npx holdfast dev`, `npm start`) starts a command by a shell. Many shells stay until the command has ended. npm passes SIGTERM to the
// shell alone, and the shell ends without the command. SIGHUP and SIGKILL end npm alone. So a command that npm started looks whether
// the shell and npm are still there. Without npm, a parent may end for good reasons: `&`, nohup, setsid.
import { readlinkSync, realpathSync } from 'node:fs'
import { parentOf } from './processes.js'

export const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const pollEveryMs = 500

let isStopping = false

/** Calls back for each of the signals, from now to the end of the process. */
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

/** Sends this process a SIGTERM when the npm that started it is gone, or npm's shell. To be called when the process begins. */
export function stopWithNpm(): void {
  if (process.env.npm_execpath === undefined) return
  const parent = process.ppid
  const above = isNpm(parent) ? undefined : parentOf(parent)
  const npm = above !== undefined && isNpm(above) ? above : undefined
  const timer = setInterval(() => {
    if (process.ppid === parent && (npm === undefined || parentOf(parent) === npm)) return
    clearInterval(timer)
    // Ctrl-C reaches npm, its shell and this process. Their end must not count as a second signal.
    if (!isStopping) process.kill(process.pid, 'SIGTERM')
  }, pollEveryMs)
  timer.unref()
}

/** Whether the process runs the node that runs npm. False where the system has no files that tell it. */
function isNpm(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`) === realpathSync(process.env.npm_node_execpath!)
  } catch {
    return false
  }
}
