// Checks the holds in the history. If two holds exclude each other, the hold with the smaller fence ends before the other hold starts.
//
// There is one exception. The nemesis ends a session or restarts the server. PostgreSQL releases the session's locks and then notifies the
// holder. The server may grant the lock to the next holder before the notification reaches the old holder. If the nemesis ended the session, an
// overlap that is shorter than the longest time for a notification is not a violation.
import type { Fault, History, Hold } from '../history.ts'
import { maxNotificationMs } from '../notification.ts'
import type { Verdict } from './index.ts'

const maxNotificationNs = BigInt(maxNotificationMs) * 1_000_000n
/** The check reads the holds in the order of their fences. A hold that ended this long ago cannot overlap with a later one. */
const memoryNs = 30_000_000_000n

export function oneHolder(history: History): Verdict {
  const endings = history.faults.filter(({ ends }) => ends !== undefined)
  const violations: Verdict['violations'] = []
  const byName = namesOf(history.holds.filter(({ max }) => max === undefined))
  for (const [name, holds] of byName) {
    let recent: Hold[] = []
    for (const second of holds.sort((a, b) => a.fence - b.fence)) {
      for (const first of recent) {
        if (first.mode === 'shared' && second.mode === 'shared') continue
        const overlapNs = first.to - second.from
        // One process may record the same hold several times, one after the other.
        if (overlapNs < 0n && (first.fence < second.fence || first.pid === second.pid)) continue
        if (overlapNs < maxNotificationNs && endings.some((ending) => excuses(ending, first, second))) continue
        const text =
          overlapNs < 0n
            ? `${name} was granted twice with fence ${first.fence}`
            : `${name} had two holders for ${ms(overlapNs)} ms: process ${first.pid} with fence ${first.fence}, and process ${second.pid} with fence ${second.fence}`
        violations.push({ text, excerpt: excerptOf(history, [first, second]) })
      }
      recent = recent.filter(({ to }) => to > second.from - memoryNs)
      recent.push(second)
    }
  }
  return { count: history.holds.length, violations }
}

/** Checks that the permits in use never exceed the limit at the moment a permit is granted. */
export function permitsKept(history: History): Verdict {
  const endings = history.faults.filter(({ ends }) => ends !== undefined)
  const violations: Verdict['violations'] = []
  let count = 0
  for (const [name, holds] of namesOf(history.holds.filter(({ max }) => max !== undefined))) {
    let recent: Hold[] = []
    for (const one of holds.sort((a, b) => (a.from < b.from ? -1 : 1))) {
      count++
      recent = recent.filter(({ to }) => to > one.from)
      recent.push(one)
      const counted = recent.filter(
        (other) =>
          other === one ||
          other.to - one.from >= maxNotificationNs ||
          !endings.some((ending) => excuses(ending, other, one)),
      )
      const taken = counted.reduce((sum, { weight }) => sum + weight!, 0)
      if (taken > one.max!) {
        violations.push({
          text: `${name} had a total weight of ${taken} in use, and the limit is ${one.max}`,
          excerpt: excerptOf(history, counted),
        })
      }
    }
  }
  return { count, violations }
}

function namesOf(holds: Hold[]) {
  const byName = new Map<string, Hold[]>()
  for (const hold of holds) {
    for (const name of hold.names) {
      if (!byName.has(name)) byName.set(name, [])
      byName.get(name)!.push(hold)
    }
  }
  return byName
}

function excuses({ from, to }: Fault, first: Hold, second: Hold) {
  return !first.lasting && BigInt(from!) < second.from && second.from < BigInt(to!) + maxNotificationNs
}

const ms = (ns: bigint) => (Number(ns) / 1e6).toFixed(1)

/**
 * Lists the holds and the faults in chronological order, from five seconds before the first hold until the last one
 * ends.
 */
function excerptOf({ faults }: History, holds: Hold[]) {
  const from = holds.reduce((least, one) => (one.from < least ? one.from : least), holds[0]!.from) - 5_000_000_000n
  const to = holds.reduce((most, one) => (one.to > most ? one.to : most), holds[0]!.to)
  const events = faults
    .filter(({ at }) => at > from && at < to)
    .map(({ at, text }) => ({ at, text: `the nemesis: ${text}` }))
  for (const { pid, names, mode, fence, from: granted, to: last, notifiedAt } of holds) {
    const who = `process ${pid}, ${mode} ${names.join(', ')}, fence ${fence}`
    events.push({ at: granted, text: `granted to ${who}` }, { at: last, text: `last found valid by ${who}` })
    if (notifiedAt !== undefined) events.push({ at: notifiedAt, text: `loss reported to ${who}` })
  }
  return events
    .sort((a, b) => (a.at < b.at ? -1 : 1))
    .map(({ at, text }) => `${ms(at - from).padStart(10)} ms  ${text}`)
}
