// What was believed, done and answered: a file for each process, a line for each event, written at once, so that nothing is lost when the
// process is killed; outside the database, which may not be the witness of its own case. Times are those of CLOCK_MONOTONIC, in
// nanoseconds, which all processes of a machine share.
import { createReadStream, openSync, readdirSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export const now = () => process.hrtime.bigint().toString()

/** Appends events to the history of this process. */
export function writeHistory(path) {
  const file = openSync(path, 'a')
  return (event, facts = {}, at = now()) => writeSync(file, `${JSON.stringify({ at, event, ...facts })}\n`)
}

/**
 * @typedef {object} Belief
 * What somebody believed in: from the moment it was granted until they last looked and were not told otherwise. Each look is noted with a
 * time from *before* it, so this is the least that was believed, and every overlap found is a real one.
 * @property {string} id
 * @property {number} pid
 * @property {string} what  the kind and the name: `lock accounts`
 * @property {'exclusive' | 'shared'} mode
 * @property {number} fence
 * @property {boolean} lasting  rests on a row, not on a session: no end of a session excuses anything
 * @property {number} [weight]
 * @property {number} [max]
 * @property {bigint} from
 * @property {bigint} to
 * @property {bigint} [toldAt]
 */

/** Everything that the processes wrote into a folder. */
export async function readHistory(folder) {
  /** @type {Map<string, Belief>} */
  const beliefs = new Map()
  const history = { beliefs, enqueued: [], undone: [], answered: [], faults: [], unexpected: [], wrong: [], counts: {} }
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.jsonl'))) {
    for await (const text of createInterface({ input: createReadStream(join(folder, file)) })) {
      // A line that a kill cut off in its middle is not one.
      if (!text.endsWith('}')) continue
      const { at, event, ...facts } = JSON.parse(text)
      history.counts[event] = (history.counts[event] ?? 0) + 1
      const time = BigInt(at)
      if (event === 'granted')
        beliefs.set(facts.id, { mode: 'exclusive', lasting: false, ...facts, from: time, to: time })
      else if (event === 'believes') for (const id of facts.ids) beliefs.get(id).to = time
      else if (event === 'told') beliefs.get(facts.id).toldAt = time
      else if (event === 'fault') history.faults.push({ at: time, ...facts })
      else history[event]?.push(facts)
    }
  }
  return { ...history, beliefs: [...beliefs.values()], faults: history.faults.sort((a, b) => (a.at < b.at ? -1 : 1)) }
}
