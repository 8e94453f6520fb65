// Checks the permits in the history, and lists the holds of a violation.
//
// There is one exception to the limit. The nemesis ends a session or restarts the server. PostgreSQL releases the session's locks and then notifies the
// holder. The server may grant the lock to the next holder before the notification reaches the old holder. If the nemesis ended the session, an
// overlap that is shorter than the longest time for a notification is not a violation.
import type { Fault, Guard, History, Hold } from '../history.ts'
import { maxNotificationMs } from '../notification.ts'
import type { Verdict } from './index.ts'

const maxNotificationNs = BigInt(maxNotificationMs) * 1_000_000n

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

export function namesOf(holds: Hold[]) {
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

export const ms = (ns: bigint) => (Number(ns) / 1e6).toFixed(1)

/**
 * Lists the holds, their guards among the given ones, and the faults, in chronological order, from five seconds before
 * the first hold until the last event.
 */
export function excerptOf({ faults }: History, holds: Hold[], guards: Guard[] = []) {
  const from = holds.reduce((least, one) => (one.from < least ? one.from : least), holds[0]!.from) - 5_000_000_000n
  const events: { at: bigint; text: string }[] = []
  for (const hold of holds) {
    const who = `process ${hold.holder}, ${hold.mode} ${hold.names.join(', ')}, fence ${hold.fence}`
    events.push({ at: hold.from, text: `granted to ${who}` }, { at: hold.to, text: `last found valid by ${who}` })
    if (hold.notifiedAt !== undefined) events.push({ at: hold.notifiedAt, text: `loss reported to ${who}` })
    else if (hold.releasedAt !== undefined) events.push({ at: hold.releasedAt, text: `released by ${who}` })
    for (const guard of hold.guards.filter((one) => guards.includes(one))) {
      events.push({ at: guard.from, text: `guard called by ${who}` }, { at: guard.to, text: `guard passed for ${who}` })
    }
  }
  const to = events.reduce((most, { at }) => (at > most ? at : most), from)
  for (const { at, text } of faults) if (at > from && at < to) events.push({ at, text: `the nemesis: ${text}` })
  return events
    .sort((a, b) => (a.at < b.at ? -1 : 1))
    .map(({ at, text }) => `${ms(at - from).padStart(10)} ms  ${text}`)
}
