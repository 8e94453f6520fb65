import { longestTimerMs, pause } from '../../base/index.js'
import type { FleetInstance } from '../../observe/index.js'
import { perform, withActs } from '../act.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'

const lookAgainMs = 100

/** Drains an instance. With `--wait` also waits until its work has ended. */
export async function instanceDrain(settings: Settings, id: string): Promise<void> {
  const withinMs = settings.durationMs('within', 0, longestTimerMs)
  await withActs(settings, async (context) => {
    const find = () => context.observer.fleet.find(id)
    const first = await find()
    const within = withinMs === undefined ? undefined : withinMs / 1_000
    const { done, text, result } = await perform(settings, context, 'drain-instance', { id, within })
    say(text)
    if (!done || !first || !settings.flag('wait')) {
      printDocument(settings, result as never)
      if (!done) throw new Exit(exitCode.conditionNotMet)
      return
    }
    const state = await untilDrained(find, first)
    printDocument<'instance-drain'>(settings, { instance: id, state })
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
    // An instance that closes in good order deletes its row while it lives. Other instances sweep the row of a dead one.
    if (!found) return latest.alive ? 'drained' : 'gone'
    if (found.alive) aliveAt = now
    // It is away for a moment while it reconnects.
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
