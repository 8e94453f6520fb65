import { longestTimerMs, pause } from '../../base/index.js'
import { type FleetInstance, Observer } from '../../observe/index.js'
import { Operator } from '../../operate/index.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { stateOf } from '../who.js'

const lookAgainMs = 100

/** Asks an instance to take no new work, and perhaps waits until what it had has come to its end. */
export async function instanceDrain(settings: Settings, id: string): Promise<void> {
  const withinMs = settings.durationMs('within', 0, longestTimerMs)
  await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    const find = () => observer.fleet.find(id)
    const found = await find()
    if (!found?.alive) {
      printDocument(settings, { instance: id, state: 'gone' })
      say(found ? `The instance ${id} is gone.` : noSuchInstance(id))
      throw new Exit(exitCode.conditionNotMet)
    }
    const isAsked = await new Operator(database, schema).requestDrain(id, withinMs)
    const { host, osPid } = found
    if (isAsked) say(`Asked ${host} process ${osPid} to drain.`)
    else say(`${host} process ${osPid} is ${found.state === 'drained' ? 'drained' : 'draining'} already.`)
    const state = settings.flag('wait') ? await untilDrained(find, found) : stateOf((await find()) ?? found)
    printDocument(settings, { instance: id, state })
    if (!settings.flag('wait')) return
    if (state === 'drained') return say('It is drained.')
    say('It is gone: it ended before it was drained.')
    throw new Exit(exitCode.failed)
  })
}

async function untilDrained(
  find: () => Promise<FleetInstance | undefined>,
  first: FleetInstance,
): Promise<'drained' | 'gone'> {
  let latest = first
  let aliveAt = performance.now()
  for (;;) {
    const found = await find()
    const now = performance.now()
    // Who closes in good order takes its row away while it lives; that of a dead one is swept by the others.
    if (!found) return latest.alive ? 'drained' : 'gone'
    if (found.alive) aliveAt = now
    // Between two lives it is away for a moment.
    else if (now - aliveAt > found.expiryMs) return 'gone'
    if (found.state === 'drained') return 'drained'
    if (found.state === 'draining' && latest.state !== 'draining') {
      const { held, leased } = found
      say(`It takes no new work. It holds ${held} ${held === 1 ? 'name' : 'names'} and ${leased} by lease.`)
    }
    latest = found
    await pause(lookAgainMs)
  }
}

export function noSuchInstance(id: string): string {
  return `There is no instance ${JSON.stringify(id)}: \`holdfast instance ls\` lists those there are.`
}
