import { checkName } from '../../base/index.js'
import { runAct } from '../act.js'
import { readInput } from '../job/add.js'
import type { Settings } from '../settings.js'

export async function scheduleRun(settings: Settings, word: string): Promise<void> {
  const { namespace } = settings
  const given = settings.text('input')
  const input = given === undefined ? undefined : await readInput(given)
  return runAct(settings, 'run-schedule', { namespace, name: checkName(word, 'schedule'), input })
}
