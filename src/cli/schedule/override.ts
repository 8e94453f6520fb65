import { checkName, UsageError } from '../../base/index.js'
import { ruleFromOptions } from '../../cron/index.js'
import { runAct } from '../act.js'
import type { Settings } from '../settings.js'

export async function scheduleOverride(settings: Settings, word: string): Promise<void> {
  const name = checkName(word, 'schedule')
  const [cron, timezone] = [settings.text('cron'), settings.text('timezone')]
  const everyMs = settings.durationMs('every', 1_000)
  const clears = settings.flag('clear')
  if (clears === (cron !== undefined || everyMs !== undefined)) {
    throw new UsageError(
      `Expected a rule (--cron or --every) or --clear, got ${clears ? 'both' : 'neither'}`,
      `For example: holdfast schedule override ${name} --every 1h`,
    )
  }
  // Reports an invalid rule before the command connects to the database.
  if (!clears) ruleFromOptions('schedule override', { cron, every: everyMs, timezone })
  const { namespace } = settings
  await runAct(settings, 'override-schedule', { namespace, name, ...(clears ? {} : { cron, everyMs, timezone }) })
}
