import { readFileSync } from 'node:fs'
import { maxNotificationMs } from '../../faults/notification.ts'

/**
 * Hold of an actor, and the check that no two holds that exclude each other overlap.
 *
 * A hold starts when acquire has returned the handle and `held` is true. It lasts at least until the last check that found it valid. A check reads
 * `held` or only the signal. The actor reads the clock *before* the check, and the `still-holds` line carries this time. A lost handle never becomes
 * valid again, so the hold was valid for the whole interval [granted, last check]. This interval is the shortest possible duration of the hold.
 * Every overlap that the judge finds is therefore real, even if timers fire late on a loaded machine:
 *
 * - Released: the last check is immediately before the release, so the judge misses nothing.
 * - Lost: the actor checks every 5 ms, so the judge misses at most 5 ms of a hold that lasts too long.
 * - Killed: the lines before the kill count. A killed process holds nothing.
 * - Frozen: a frozen process does nothing, so its hold ends with the last check before the freeze. If the first check after the freeze still finds
 *   the hold valid, the interval contains the whole freeze and overlaps with the next holder. This is the violation that the judge must find.
 *
 * If the controller ends a session or restarts the server, PostgreSQL releases the lock and then notifies the holder. PostgreSQL may grant the lock
 * to the next holder before the notification arrives. In this case, the judge excuses an overlap that is shorter than the longest time for a
 * notification. Fences and `guard` protect writes in this case. A frozen or disconnected process would not be notified until its expiry, so the
 * controller does not end sessions of such processes.
 *
 * The one rule of the judge: if two holds exclude each other, the hold with the smaller fence ends before the other hold starts. The rule also finds
 * a grant whose response arrives after that of a later holder.
 */
export interface Hold {
  readonly id: string
  readonly schedule: number
  readonly names: readonly string[]
  readonly mode: 'exclusive' | 'shared'
  readonly fence: number
  readonly from: bigint
  to: bigint
  notifiedAt: bigint | undefined
  /** Whether the hold is a row and no session lock. The end of a session does not excuse an overlap of such a hold. */
  readonly lasting?: boolean
  /** Weight of a permit, and the limit. */
  readonly weight?: number
  readonly max?: number
}

/** Result of a `once` key that a caller received: the run that made the effect. */
export interface OnceResult {
  readonly key: string
  readonly by: string
}

interface Line {
  id: string
  event: 'granted' | 'still-holds' | 'notified' | 'result' | 'unexpected'
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

/** Time in which the controller ended sessions of one process, or of all. */
export interface Ending {
  readonly pid: number | 'all'
  readonly from: bigint
  to: bigint
}

const maxNotificationNs = BigInt(maxNotificationMs) * 1_000_000n

export interface History {
  readonly holds: Hold[]
  readonly answers: OnceResult[]
  readonly unexpected: string[]
}

export function readHistory(files: readonly string[]): History {
  const holds = new Map<string, Hold>()
  const answers: OnceResult[] = []
  const unexpected: string[] = []
  for (const file of files) {
    // A kill may have cut off the last line.
    for (const text of readFileSync(file, 'utf8').split('\n').slice(0, -1)) {
      const line: Line = JSON.parse(text)
      const at = BigInt(line.at ?? 0)
      const hold = holds.get(line.id)
      if (line.event === 'unexpected') unexpected.push(`schedule ${line.schedule}: ${line.error}`)
      else if (line.event === 'result') answers.push({ key: line.id, by: line.by! })
      else if (line.event === 'granted') holds.set(line.id, begin(line, at))
      else if (line.event === 'notified') hold!.notifiedAt = at
      else hold!.to = at
    }
  }
  return { holds: [...holds.values()], answers, unexpected }
}

function begin(line: Line, at: bigint): Hold {
  const { id, schedule, names, mode, fence, lasting = false, weight = 1, max = 1 } = line
  const facts = { id, schedule: schedule!, names: names!, mode: mode!, fence: fence!, lasting, weight, max }
  return { ...facts, from: at, to: at, notifiedAt: undefined }
}

export interface Verdict {
  readonly violations: string[]
  /** Longest excused overlap after the end of a session. */
  readonly longestNotificationMs: number
}

/** Checks all pairs of holds. Returns a sentence for each violation. */
export function judge(holds: readonly Hold[], endings: readonly Ending[]): Verdict {
  const byName = new Map<string, Hold[]>()
  for (const hold of holds) {
    for (const name of hold.names) byName.set(name, [...(byName.get(name) ?? []), hold])
  }
  const violations: string[] = []
  let longestNotificationMs = 0
  for (const [name, first, second] of [...byName].flatMap(excludingPairs)) {
    const overlap = first.to - second.from
    if (overlap < 0n && first.fence < second.fence) continue
    if (overlap < maxNotificationNs && endings.some((ending) => explains(ending, first, second))) {
      longestNotificationMs = Math.max(longestNotificationMs, Number(overlap) / 1e6)
    } else violations.push(`${name} had two holders: ${format(first)}, then ${format(second)}`)
  }
  return { violations, longestNotificationMs }
}

/** Checks that the permits in use never exceed the limit at the moment at which a permit is granted. */
export function judgePermits(holds: readonly Hold[], endings: readonly Ending[]): Verdict {
  const violations: string[] = []
  let longestNotificationMs = 0
  for (const permit of holds) {
    const { max = 1, weight = 1, from } = permit
    const others = holds.filter(
      (other) => other !== permit && other.names[0] === permit.names[0] && other.from <= from && from <= other.to,
    )
    // The notification of the loss may not have arrived yet.
    const explained = others.filter(
      (other) => other.to - from < maxNotificationNs && endings.some((ending) => explains(ending, other, permit)),
    )
    const certain = others.filter((other) => !explained.includes(other))
    const taken = certain.reduce((sum, other) => sum + (other.weight ?? 1), weight)
    if (taken > max)
      violations.push(
        `the weight in use was ${taken}, and the limit is ${max}: ${[...certain, permit].map(format).join(', ')}`,
      )
    for (const { to } of explained) longestNotificationMs = Math.max(longestNotificationMs, Number(to - from) / 1e6)
  }
  return { violations, longestNotificationMs }
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
    second.from < to + maxNotificationNs
  )
}

function format({ id, mode, fence, from, to }: Hold): string {
  return `${id} (${mode}, fence ${fence}, ${from} to ${to})`
}
