// Reads the CPU time of processes from /proc.
import { readdirSync, readFileSync } from 'node:fs'

const msPerTick = 10

/**
 * Returns the CPU time of a process and its children, or undefined if /proc cannot be read. The time of running processes is exact. The kernel
 * counts the time of children that have ended in ticks, and a process that runs for less than a tick may be counted too often or never.
 */
export function cpuMsOf(pid: number | undefined) {
  try {
    let ms = 0
    for (const one of readdirSync('/proc')) {
      const stat = /^\d+$/.test(one) && statOf(one)
      if (!stat) continue
      if (one === String(pid)) ms += stat.ownMs + stat.exitedMs
      else if (stat.parent === pid) ms += stat.ownMs
    }
    return ms
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
    // The name, which is the second field, can contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ')
    const [exitedUser, exitedSystem] = [Number(fields[13]), Number(fields[14])]
    const ownNs = readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
    )
    return {
      parent: Number(fields[1]),
      ownMs: ownNs.reduce((sum, ns) => sum + ns, 0) / 1e6,
      exitedMs: (exitedUser + exitedSystem) * msPerTick,
    }
  } catch {
    // The process has ended since the listing.
    return undefined
  }
}
