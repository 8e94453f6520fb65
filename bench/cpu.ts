// Reads the CPU time of processes from /proc.
import { readdirSync, readFileSync } from 'node:fs'

const msPerTick = 10

/** Returns the CPU time of a process and its children, or undefined if /proc cannot be read. */
export function cpuMsOf(pid: number | undefined) {
  try {
    let ticks = 0
    for (const one of readdirSync('/proc')) {
      const stat = /^\d+$/.test(one) && statOf(one)
      if (!stat) continue
      if (one === String(pid)) ticks += stat.own + stat.exited
      else if (stat.parent === pid) ticks += stat.own
    }
    return ticks * msPerTick
  } catch {
    return undefined
  }
}

/** Returns the CPU time of this process. */
export function ownCpuMs() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

function statOf(pid: string) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ')
    const [user, system, exitedUser, exitedSystem] = fields.slice(11, 15).map(Number) as [
      number,
      number,
      number,
      number,
    ]
    return { parent: Number(fields[1]), own: user + system, exited: exitedUser + exitedSystem }
  } catch {
    // The process has ended since the listing.
    return undefined
  }
}
