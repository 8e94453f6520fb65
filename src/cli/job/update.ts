import { UsageError } from '../../base/index.js'
import { jobId, runAct } from '../act.js'
import type { Settings } from '../settings.js'
import { readInput } from './add.js'

export async function jobUpdate(settings: Settings, word: string, inputText?: string): Promise<void> {
  const id = jobId(word)
  const changes = {
    input: inputText === undefined ? undefined : await readInput(inputText),
    runAt: settings.time('runAt'),
    startBy: settings.time('startBy'),
    priority: settings.wholeNumber('priority', -5, 5),
  }
  if (Object.values(changes).every((change) => change === undefined)) {
    throw new UsageError('Expected an input, --run-at, --start-by or --priority, got no change')
  }
  return runAct(settings, 'update-job', { id, ...changes })
}
