import { checkName } from '../../base/index.js'
import { jobId, runAct } from '../act.js'
import type { Settings } from '../settings.js'
import { readInput } from './add.js'

export async function jobSend(settings: Settings, word: string, event: string, dataText?: string): Promise<void> {
  const id = jobId(word)
  checkName(event, 'event')
  const data = dataText === undefined ? undefined : await readInput(dataText)
  return runAct(settings, 'send-event', { id, event, data, key: settings.text('idempotencyKey') })
}
