// The processes of this machine, as far as stopping a child with all its descendants needs to know them.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

export interface Process {
  readonly pid: number
  readonly parent: number
  readonly group: number
  /** The group that its terminal listens to; not positive without a terminal. */
  readonly foreground: number
  /** Tells it from a later process with the same pid. */
  readonly startedAt: string
}

/** Linux tells by files, where a slim container has no ps; elsewhere ps is part of the system. */
export function listProcesses(): Process[] {
  try {
    return process.platform === 'linux' ? readProc() : readPs()
  } catch {
    return []
  }
}

/** All that descend from a process, itself first. */
export function descendantsOf(pid: number, all = listProcesses()): Process[] {
  const found = all.filter((process) => process.pid === pid)
  // What is appended is visited too.
  for (const ancestor of found) found.push(...all.filter(({ parent }) => parent === ancestor.pid))
  return found
}

/**
 * Whether what the terminal sends (Ctrl-C, Ctrl-\) reaches our whole process group by itself, the child included.
 * Only then is there nothing to pass on.
 */
export function isTerminalsForeground(): boolean {
  const self = listProcesses().find(({ pid }) => pid === process.pid)
  return self !== undefined && self.foreground > 0 && self.foreground === self.group
}

/** Those that are the same processes still, and no later ones with their pids. */
export function stillRunning(all: readonly Process[], processes: readonly Process[]): Process[] {
  const started = new Map(all.map(({ pid, startedAt }) => [pid, startedAt]))
  return processes.filter(({ pid, startedAt }) => started.get(pid) === startedAt)
}

export function sendSignal({ pid }: Process, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone in between, or become another user's by a set-user-id program.
  }
}

/** The parent of a process; undefined where the process is gone, or the system has no files that tell it. */
export function parentOf(pid: number): number | undefined {
  try {
    return Number(statOf(pid)[1])
  } catch {
    return undefined
  }
}

/** What Linux tells of a process, from the third field on. */
function statOf(pid: number | string): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // The second field, the program's name in brackets, may itself contain spaces and brackets.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

function readProc(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const fields = statOf(name)
        // A zombie has ended; only its parent has not looked yet.
        if (fields[0] === 'Z') return []
        const [parent, group, , , foreground] = fields.slice(1, 6).map(Number)
        return [{ pid: Number(name), parent: parent!, group: group!, foreground: foreground!, startedAt: fields[19]! }]
      } catch {
        return [] // Gone while we looked.
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
