// Who believed in what, and when. Of two holds that exclude each other, the one with the smaller fence is over before the other begins.
//
// A session that is ended from outside, or a restart, takes locks away in the same instant in which it says so: the news is on its way while
// the next one is granted. For what the nemesis ended, an overlap as short as news may take is excused. Nothing else is.
import type { Fault, History, Hold } from '../history.ts'
import { newsMs } from '../news.ts'
import type { Verdict } from './index.ts'

const newsNs = BigInt(newsMs) * 1_000_000n
/** Beliefs are looked at in the order of their fences; those that are over for so long cannot meet a later one any more. */
const memoryNs = 30_000_000_000n

export function oneHolder(history: History): Verdict {
  const endings = history.faults.filter(({ ends }) => ends !== undefined)
  const against: Verdict['against'] = []
  const byName = namesOf(history.holds.filter(({ max }) => max === undefined))
  for (const [name, holds] of byName) {
    let recent: Hold[] = []
    for (const second of holds.sort((a, b) => a.fence - b.fence)) {
      for (const first of recent) {
        if (first.mode === 'shared' && second.mode === 'shared') continue
        const overlapNs = first.to - second.from
        // One holding may be believed in several times, one after the other, by whoever has it.
        if (overlapNs < 0n && (first.fence < second.fence || first.pid === second.pid)) continue
        if (overlapNs < newsNs && endings.some((ending) => excuses(ending, first, second))) continue
        const says =
          overlapNs < 0n
            ? `${name} was granted twice with fence ${first.fence}`
            : `two believed in ${name}, for ${ms(overlapNs)} ms: process ${first.pid} with fence ${first.fence}, and process ${second.pid} with fence ${second.fence}`
        against.push({ says, story: storyOf(history, [first, second]) })
      }
      recent = recent.filter(({ to }) => to > second.from - memoryNs)
      recent.push(second)
    }
  }
  return { count: history.holds.length, against }
}

/** Whenever a permit begins, those that are believed in at that moment take no more places than there are. */
export function permitsKept(history: History): Verdict {
  const endings = history.faults.filter(({ ends }) => ends !== undefined)
  const against: Verdict['against'] = []
  let count = 0
  for (const [name, holds] of namesOf(history.holds.filter(({ max }) => max !== undefined))) {
    let recent: Hold[] = []
    for (const one of holds.sort((a, b) => (a.from < b.from ? -1 : 1))) {
      count++
      recent = recent.filter(({ to }) => to > one.from)
      recent.push(one)
      const counted = recent.filter(
        (other) =>
          other === one || other.to - one.from >= newsNs || !endings.some((ending) => excuses(ending, other, one)),
      )
      const taken = counted.reduce((sum, { weight }) => sum + weight!, 0)
      if (taken > one.max!) {
        against.push({ says: `${taken} of ${one.max} places of ${name} were taken`, story: storyOf(history, counted) })
      }
    }
  }
  return { count, against }
}

function namesOf(holds: Hold[]) {
  const byName = new Map<string, Hold[]>()
  for (const hold of holds) {
    for (const name of hold.what) {
      if (!byName.has(name)) byName.set(name, [])
      byName.get(name)!.push(hold)
    }
  }
  return byName
}

function excuses({ from, to }: Fault, first: Hold, second: Hold) {
  return !first.lasting && BigInt(from!) < second.from && second.from < BigInt(to!) + newsNs
}

const ms = (ns: bigint) => (Number(ns) / 1e6).toFixed(1)

/** The holds, and what the nemesis did from shortly before the first until the end of them, in the order of time. */
function storyOf({ faults }: History, holds: Hold[]) {
  const from = holds.reduce((least, one) => (one.from < least ? one.from : least), holds[0]!.from) - 5_000_000_000n
  const to = holds.reduce((most, one) => (one.to > most ? one.to : most), holds[0]!.to)
  const events = faults
    .filter(({ at }) => at > from && at < to)
    .map(({ at, says }) => ({ at, says: `the nemesis: ${says}` }))
  for (const { pid, what, mode, fence, from: granted, to: last, toldAt } of holds) {
    const who = `process ${pid}, ${mode} ${what.join(', ')}, fence ${fence}`
    events.push({ at: granted, says: `granted to ${who}` }, { at: last, says: `still believed by ${who}` })
    if (toldAt !== undefined) events.push({ at: toldAt, says: `told to ${who}: it is lost` })
  }
  return events
    .sort((a, b) => (a.at < b.at ? -1 : 1))
    .map(({ at, says }) => `${ms(at - from).padStart(10)} ms  ${says}`)
}
