import { maxTimerMs, pause } from '../../base/index.js'
import type { FleetInstance } from '../../observe/index.js'
import { previewAndRun, withActs } from '../act.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { countText, printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { findInstance } from './find.js'

const pollEveryMs = 100

/** Drains an instance. With `--wait`, also waits until all of the instance's work has ended. */
export async function instanceDrain(settings: Settings, word: string): Promise<void> {
  const withinMs = settings.durationMs('within', 0, maxTimerMs)
  await withActs(settings, async (context) => {
    const before = await findInstance(context.observer, word, settings.name('namespace'))
    const id = before?.id ?? word
    const find = () => context.observer.fleet.find(id)
    const within = withinMs === undefined ? undefined : withinMs / 1_000
    const { done, text, result } = await previewAndRun(settings, context, 'drain-instance', { id, within })
    printMessage(text)
    if (!done || !before || !settings.flag('wait')) {
      printDocument(settings, result as never)
      if (!done) throw new Exit(exitCode.conditionNotMet)
      return
    }
    const state = await untilDrained(find, before)
    printDocument<'instance-drain'>(settings, { instance: id, name: before.name, state })
    if (state === 'drained') return printMessage('The instance is drained.')
    printMessage('The instance is lost: its process ended before the instance was drained.')
    throw new Exit(exitCode.failed)
  })
}

async function untilDrained(
  find: () => Promise<FleetInstance | null>,
  before: FleetInstance,
): Promise<'drained' | 'lost'> {
  let latest = before
  let aliveAt = performance.now()
  for (;;) {
    const found = await find()
    const now = performance.now()
    // An instance that closes cleanly deletes its own row. Other instances delete the row of a dead instance.
    if (!found) return latest.alive ? 'drained' : 'lost'
    if (found.alive) aliveAt = now
    // Waits for one expiry, because an instance is briefly not considered alive while it is reconnecting.
    else if (now - aliveAt > found.expiryMs) return 'lost'
    if (found.state === 'drained') return 'drained'
    if (found.state === 'draining' && latest.state !== 'draining') {
      printMessage(
        `The instance is no longer starting new work. It still holds ${countText(found.held, 'lock')} and ${countText(found.leased, 'lease')}.`,
      )
    }
    latest = found
    await pause(pollEveryMs)
  }
}
