import { readFileSync } from 'node:fs'
import { newsMs } from '../../faults/news.ts'

/**
 * What the actors believed, and the proof that no two of them believed what excludes each other.
 *
 * A hold begins when an acquire has handed the lock to the user and `held` was true after that. It reaches, at least, to
 * the last moment at which the user looked (at `held`, or at the signal alone) and was not told otherwise: each
 * `believes` line carries a time from *before* that look. Trust is never given back, so between the two the lock was
 * believed in throughout, and the interval [granted, last look] is a lower bound of the true hold. That makes every
 * overlap found a real one, however late a timer fires on a loaded machine:
 *
 * - released: the last look is immediately before the release is asked for, so nothing is missed;
 * - lost: users look every 5 ms, so at most that much of a hold that goes on too long is missed;
 * - killed: what was written before the kill stands; after it nobody believes anything;
 * - frozen: while it is stopped a process cannot act. Its hold counts as over at its last look before, unless the first
 *   look after it was thawed still says yes: then the interval spans the whole freeze, and overlaps with whoever was granted
 *   the name meanwhile. Which is the point.
 *
 * A backend that is ended from outside, or a restart, takes the lock away in the same instant in which it says so, and no
 * deadline comes before it. The news is on its way while the next one is granted: for what the controller ended, an overlap
 * as short as news may take is counted and not refused. Fences and `guard` protect writes there; and to whoever is frozen
 * or cut off in that moment the news comes only with the deadline, so the controller does not do both at once.
 *
 * So, of two holds that exclude each other, the one with the smaller fence is over before the other begins. This is the
 * one rule, for holds and for fences: a grant whose answer arrives after a later holder's is found by it, too.
 */
export interface Hold {
  readonly id: string
  readonly schedule: number
  readonly names: readonly string[]
  readonly mode: 'exclusive' | 'shared'
  readonly fence: number
  readonly from: bigint
  to: bigint
  toldAt: bigint | undefined
  /** It rests on no session, so no end of one explains anything. */
  readonly lasting?: boolean
  /** Of a permit: how many places it takes, and how many there are. */
  readonly weight?: number
  readonly max?: number
}

/** What somebody was answered for a delivery: by whom its effect was made. */
export interface Answer {
  readonly key: string
  readonly by: string
}

interface Line {
  id: string
  event: 'granted' | 'still-holds' | 'told' | 'answered' | 'unexpected'
  at?: string
  schedule?: number
  names?: string[]
  mode?: Hold['mode']
  fence?: number
  lasting?: boolean
  weight?: number
  max?: number
  by?: string
  error?: string
}

/** The server took locks away without a warning: from one process, or from all. */
export interface Ending {
  readonly pid: number | 'all'
  readonly from: bigint
  to: bigint
}

const newsNs = BigInt(newsMs) * 1_000_000n

export interface History {
  readonly holds: Hold[]
  readonly answers: Answer[]
  readonly unexpected: string[]
}

export function readHistory(files: readonly string[]): History {
  const holds = new Map<string, Hold>()
  const answers: Answer[] = []
  const unexpected: string[] = []
  for (const file of files) {
    // A line that a kill cut off in its middle is not one.
    for (const text of readFileSync(file, 'utf8').split('\n').slice(0, -1)) {
      const line: Line = JSON.parse(text)
      const at = BigInt(line.at ?? 0)
      const hold = holds.get(line.id)
      if (line.event === 'unexpected') unexpected.push(`schedule ${line.schedule}: ${line.error}`)
      else if (line.event === 'answered') answers.push({ key: line.id, by: line.by! })
      else if (line.event === 'granted') holds.set(line.id, begin(line, at))
      else if (line.event === 'told') hold!.toldAt = at
      else hold!.to = at
    }
  }
  return { holds: [...holds.values()], answers, unexpected }
}

function begin(line: Line, at: bigint): Hold {
  const { id, schedule, names, mode, fence, lasting = false, weight = 1, max = 1 } = line
  const facts = { id, schedule: schedule!, names: names!, mode: mode!, fence: fence!, lasting, weight, max }
  return { ...facts, from: at, to: at, toldAt: undefined }
}

export interface Verdict {
  readonly violations: string[]
  /** How long the news of an ending took at most, where the next one was faster. */
  readonly longestNewsMs: number
}

/** Every pair that breaks the rules, in words. */
export function judge(holds: readonly Hold[], endings: readonly Ending[]): Verdict {
  const byName = new Map<string, Hold[]>()
  for (const hold of holds) {
    for (const name of hold.names) byName.set(name, [...(byName.get(name) ?? []), hold])
  }
  const violations: string[] = []
  let longestNewsMs = 0
  for (const [name, first, second] of [...byName].flatMap(excludingPairs)) {
    const overlap = first.to - second.from
    if (overlap < 0n && first.fence < second.fence) continue
    if (overlap < newsNs && endings.some((ending) => explains(ending, first, second))) {
      longestNewsMs = Math.max(longestNewsMs, Number(overlap) / 1e6)
    } else violations.push(`two believers of ${name}: ${tell(first)}, then ${tell(second)}`)
  }
  return { violations, longestNewsMs }
}

/** The same for permits: whenever one begins, those that are believed in at that moment take no more places than there are. */
export function judgePermits(holds: readonly Hold[], endings: readonly Ending[]): Verdict {
  const violations: string[] = []
  let longestNewsMs = 0
  for (const permit of holds) {
    const { max = 1, weight = 1, from } = permit
    const others = holds.filter(
      (other) => other !== permit && other.names[0] === permit.names[0] && other.from <= from && from <= other.to,
    )
    // The news that it is gone may be on its way.
    const explained = others.filter(
      (other) => other.to - from < newsNs && endings.some((ending) => explains(ending, other, permit)),
    )
    const certain = others.filter((other) => !explained.includes(other))
    const taken = certain.reduce((sum, other) => sum + (other.weight ?? 1), weight)
    if (taken > max) violations.push(`${taken} of ${max} places: ${[...certain, permit].map(tell).join(', ')}`)
    for (const { to } of explained) longestNewsMs = Math.max(longestNewsMs, Number(to - from) / 1e6)
  }
  return { violations, longestNewsMs }
}

function excludingPairs([name, holds]: [string, Hold[]]): [string, Hold, Hold][] {
  const sorted = holds.toSorted((a, b) => a.fence - b.fence)
  return sorted.flatMap((first, at) =>
    sorted
      .slice(at + 1)
      .filter((second) => first.mode === 'exclusive' || second.mode === 'exclusive')
      .map((second): [string, Hold, Hold] => [name, first, second]),
  )
}

function explains({ pid, from, to }: Ending, first: Hold, second: Hold): boolean {
  return (
    !first.lasting &&
    (pid === 'all' || first.id.startsWith(`${pid}:`)) &&
    from < second.from &&
    second.from < to + newsNs
  )
}

function tell({ id, mode, fence, from, to }: Hold): string {
  return `${id} (${mode}, fence ${fence}, ${from} to ${to})`
}
