import { checkName } from '../../base/index.js'
import { withHoldfast } from '../connect.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'

export async function scheduleRm(settings: Settings, word: string): Promise<void> {
  const name = checkName(word, 'schedule')
  const isRemoved = await withHoldfast(settings, ({ schedules }) => schedules.remove(name))
  printDocument<'schedule-rm'>(settings, { removed: isRemoved ? name : null })
  printMessage(isRemoved ? `Removed the schedule "${name}".` : `There is no stored schedule "${name}".`)
  if (!isRemoved) throw new Exit(exitCode.conditionNotMet)
}
