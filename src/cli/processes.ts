// Lists this machine's processes, so that `lock run` can stop a child with all its descendants.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

export interface Process {
  readonly pid: number
  readonly parent: number
  readonly group: number
  /** Foreground process group of the process's terminal. Zero or negative if the process has no terminal. */
  readonly foreground: number
  /** Start time, which distinguishes the process from a later process with the same pid. */
  readonly startedAt: string
}

/** Lists all processes. Reads /proc on Linux, because slim containers have no ps, and runs ps on other systems. */
export function listProcesses(): Process[] {
  try {
    return process.platform === 'linux' ? readProc() : readPs()
  } catch {
    return []
  }
}

/** Returns a process and its descendants. */
export function descendantsOf(pid: number, all = listProcesses()): Process[] {
  const found = all.filter((process) => process.pid === pid)
  // The loop also visits the processes that it appends.
  for (const ancestor of found) found.push(...all.filter(({ parent }) => parent === ancestor.pid))
  return found
}

/** Returns true if the terminal sends the signals of Ctrl-C and Ctrl-\ to this process group, including the child. */
export function isTerminalsForeground(): boolean {
  const self = listProcesses().find(({ pid }) => pid === process.pid)
  return self !== undefined && self.foreground > 0 && self.foreground === self.group
}

/** Returns the processes that are still running. A later process with the same pid is a different process. */
export function stillRunning(all: readonly Process[], processes: readonly Process[]): Process[] {
  const started = new Map(all.map(({ pid, startedAt }) => [pid, startedAt]))
  return processes.filter(({ pid, startedAt }) => started.get(pid) === startedAt)
}

export function sendSignal({ pid }: Process, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process has ended, or it cannot be signaled because it runs a set-user-ID program as a different user.
  }
}

/** Returns a process's parent. Returns undefined if the process has ended or the system has no /proc. */
export function parentOf(pid: number): number | undefined {
  try {
    return Number(statOf(pid)[1])
  } catch {
    return undefined
  }
}

/** Fields of /proc/PID/stat, starting with the third field. */
function statOf(pid: number | string): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // The second field is the program name in brackets. The name may contain spaces and brackets.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

function readProc(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const fields = statOf(name)
        // A zombie is a process that has ended but whose parent has not read its exit status yet.
        if (fields[0] === 'Z') return []
        const [parent, group, , , foreground] = fields.slice(1, 6).map(Number)
        return [{ pid: Number(name), parent: parent!, group: group!, foreground: foreground!, startedAt: fields[19]! }]
      } catch {
        return [] // The process has ended since the readdir.
      }
    })
}

function readPs(): Process[] {
  const columns = 'pid=,ppid=,pgid=,tpgid=,stat=,lstart='
  const lines = execFileSync('ps', ['-axo', columns], { encoding: 'utf8' }).trim().split('\n')
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , , stat]) => !stat?.startsWith('Z'))
    .map(([pid, parent, group, foreground, , ...startedAt]) => ({
      pid: Number(pid),
      parent: Number(parent),
      group: Number(group),
      foreground: Number(foreground),
      startedAt: startedAt.join(' '),
    }))
}
