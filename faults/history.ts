// What was believed, done and answered: a file for each process, a line for each event, written at once, so that nothing is lost when the
// process is killed; outside the database, which may not be the witness of its own case. Times are those of CLOCK_MONOTONIC, in
// nanoseconds, which all processes of a machine share.
import { createReadStream, openSync, readdirSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export const now = () => process.hrtime.bigint().toString()

export type Write = (event: string, facts?: object, at?: string) => void

/** Appends events to the history of this process. */
export function writeHistory(path: string): Write {
  const file = openSync(path, 'a')
  return (event, facts = {}, at = now()) => void writeSync(file, `${JSON.stringify({ at, event, ...facts })}\n`)
}

/**
 * What somebody believed in: from the moment it was granted until they last looked and were not told otherwise. Each look is noted with a
 * time from *before* it, so this is the least that was believed, and every overlap found is a real one.
 */
export interface Hold {
  id: string
  pid: number
  /** Each with its kind: `lease accounts`. */
  what: string[]
  mode: 'exclusive' | 'shared'
  fence: number
  /** Rests on a row, not on a session: no end of a session excuses anything. */
  lasting: boolean
  weight?: number
  max?: number
  from: bigint
  to: bigint
  toldAt?: bigint
}

/** What the nemesis did. With `ends` it took locks away at once, between two moments. */
export interface Fault {
  at: bigint
  says: string
  ends?: string
  from?: string
  to?: string
}

export interface History {
  holds: Hold[]
  /** What was told to be committed; without ids where nobody learned them. */
  enqueued: { tag: string; ids: number[] }[]
  undone: { tag: string }[]
  answered: { key: string; by: string; body: string }[]
  faults: Fault[]
  unexpected: { error: string; code?: string }[]
  wrong: { says: string }[]
  counts: Record<string, number>
}

/** Everything that the processes wrote into a folder. */
export async function readHistory(folder: string): Promise<History> {
  const holds = new Map<string, Hold>()
  const history: Omit<History, 'holds'> = {
    enqueued: [],
    undone: [],
    answered: [],
    faults: [],
    unexpected: [],
    wrong: [],
    counts: {},
  }
  const { faults, counts, ...lists } = history
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.jsonl'))) {
    for await (const text of createInterface({ input: createReadStream(join(folder, file)) })) {
      // A line that a kill cut off in its middle is not one.
      if (!text.endsWith('}')) continue
      const { at, event, ...facts } = JSON.parse(text)
      counts[event] = (counts[event] ?? 0) + 1
      const time = BigInt(at)
      if (event === 'granted')
        holds.set(facts.id, { mode: 'exclusive', lasting: false, ...facts, from: time, to: time })
      else if (event === 'still-holds') for (const id of facts.ids) holds.get(id)!.to = time
      else if (event === 'told') holds.get(facts.id)!.toldAt = time
      else if (event === 'fault') faults.push({ at: time, ...facts })
      else if (event in lists) lists[event as keyof typeof lists].push(facts)
    }
  }
  return { ...history, holds: [...holds.values()], faults: faults.sort((a, b) => (a.at < b.at ? -1 : 1)) }
}
