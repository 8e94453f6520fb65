// The time of processors that a server has had, as Linux counts it.
import { readdirSync, readFileSync } from 'node:fs'

const msPerTick = 10

/** The time of processors that the process and its children have had; undefined where /proc does not tell. */
export function cpuMsOf(pid: number | undefined) {
  try {
    let ticks = 0
    for (const one of readdirSync('/proc')) {
      const stat = /^\d+$/.test(one) && statOf(one)
      if (!stat) continue
      if (one === String(pid)) ticks += stat.own + stat.ended
      else if (stat.parent === pid) ticks += stat.own
    }
    return ticks * msPerTick
  } catch {
    return undefined
  }
}

/** CPU time of this process. */
export function ownCpuMs() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

function statOf(pid: string) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ')
    const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number) as [number, number, number, number]
    return { parent: Number(fields[1]), own: user + system, ended: endedUser + endedSystem }
  } catch {
    // It has ended meanwhile.
    return undefined
  }
}
