// The histories: one file per process, one line per event. A process writes each line immediately, so no line is lost if the process is
// killed. The files are outside the database, because the database is under test. All times are nanoseconds of CLOCK_MONOTONIC, which all
// processes of a machine share.
import { createReadStream, openSync, readdirSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { ChangedJob } from './work/changes.ts'

export const now = () => process.hrtime.bigint().toString()

export type Write = (event: string, facts?: object, at?: string) => void

/** Appends events to this process's history. */
export function writeHistory(path: string): Write {
  const file = openSync(path, 'a')
  return (event, facts = {}, at = now()) => void writeSync(file, `${JSON.stringify({ at, event, ...facts })}\n`)
}

/**
 * A hold on a lock, lease or permit, from the grant until the last check that found it valid. The process reads the
 * clock *before* each check, so this is the shortest possible duration of the hold, and every overlap that the judge
 * finds is real.
 */
export interface Hold {
  id: string
  /** The instance. */
  holder: string
  /**
   * Names of the hold. A lock and a lease on the same name exclude each other, so only the other kinds have a prefix:
   * `permit exports`.
   */
  names: string[]
  mode: 'exclusive' | 'shared'
  fence: number
  /**
   * Whether the hold is a row and no session lock. Such a hold must not overlap another hold, even if a session has
   * ended.
   */
  lasting: boolean
  weight?: number
  max?: number
  from: bigint
  to: bigint
  /** Time of the first call that received the hold's fence, if the process knows it. Later callers of the process join the hold. */
  requestedAt?: bigint
  /** Time when the release had returned. */
  releasedAt?: bigint
  notifiedAt?: bigint
  guards: Guard[]
}

/** A guard that passed. It was executed at some time between `from`, when it was called, and `to`, when it had returned. */
export interface Guard {
  id: string
  from: bigint
  to: bigint
  /** Whether the guard checks that the hold has not ended. Otherwise, it only compares fences. */
  checksHold: boolean
  /** Whether the commit of its transaction was acknowledged. */
  isCommitted: boolean
}

/** A fault. `ends` means that the fault ended sessions and so released their locks, between `from` and `to`. */
export interface Fault {
  at: bigint
  text: string
  ends?: string
  from?: string
  to?: string
}

export interface History {
  holds: Hold[]
  /** Batches of jobs whose commit was acknowledged. */
  enqueued: { tag: string; ids: number[] }[]
  rolledBack: { tag: string }[]
  /** Calls of the function of a step outside `tx`. */
  ranStep: { at: bigint; id: number; name: string; fence: number; pid: number }[]
  /** Steps whose `job.step` has returned. */
  endedStep: { at: bigint; id: number; name: string; fence: number }[]
  /** Events that were accepted, as `jobs.send` has reported. */
  sentEvent: { id: number }[]
  delivered: { key: string; by: string; body: string }[]
  changed: ChangedJob[]
  faults: Fault[]
  unexpected: { error: string; code?: string }[]
  wrong: { text: string }[]
  counts: Record<string, number>
}

/** Reads all processes' histories in a folder. */
export async function readHistory(folder: string): Promise<History> {
  const holds = new Map<string, Hold>()
  const guards = new Map<string, Guard>()
  const history: Omit<History, 'holds'> = {
    enqueued: [],
    rolledBack: [],
    ranStep: [],
    endedStep: [],
    sentEvent: [],
    delivered: [],
    changed: [],
    faults: [],
    unexpected: [],
    wrong: [],
    counts: {},
  }
  const { faults, counts, ...lists } = history
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.jsonl'))) {
    for await (const text of createInterface({ input: createReadStream(join(folder, file)) })) {
      // A kill may have cut off the last line.
      if (!text.endsWith('}')) continue
      const { at, event, ...facts } = JSON.parse(text)
      counts[event] = (counts[event] ?? 0) + 1
      const time = BigInt(at)
      if (event === 'granted') {
        const { requestedAt, ...known } = facts
        const hold: Hold = { mode: 'exclusive', lasting: false, ...known, from: time, to: time, guards: [] }
        if (requestedAt) hold.requestedAt = BigInt(requestedAt)
        holds.set(hold.id, hold)
      } else if (event === 'still-holds') for (const id of facts.ids) holds.get(id)!.to = time
      else if (event === 'released') holds.get(facts.id)!.releasedAt = time
      else if (event === 'notified') holds.get(facts.id)!.notifiedAt = time
      else if (event === 'guarded') {
        const { id, hold, checksHold, from } = facts
        const guard: Guard = { id, checksHold, from: BigInt(from), to: time, isCommitted: false }
        guards.set(id, guard)
        holds.get(hold)!.guards.push(guard)
      } else if (event === 'committed') guards.get(facts.id)!.isCommitted = true
      else if (event === 'fault') faults.push({ at: time, ...facts })
      else if (event in lists) lists[event as keyof typeof lists].push({ at: time, ...facts })
    }
  }
  const requestedAt = new Map<number, bigint>()
  for (const { fence, requestedAt: time } of holds.values()) {
    const known = requestedAt.get(fence)
    if (time !== undefined && (known === undefined || time < known)) requestedAt.set(fence, time)
  }
  for (const hold of holds.values()) {
    const first = requestedAt.get(hold.fence)
    if (first !== undefined) hold.requestedAt = first
  }
  return { ...history, holds: [...holds.values()], faults: faults.sort((a, b) => (a.at < b.at ? -1 : 1)) }
}
