import { checkName, UsageError } from '../../base/index.js'
import { ruleFromOptions } from '../../cron/index.js'
import { runAct } from '../act.js'
import type { Settings } from '../settings.js'

export async function scheduleOverride(settings: Settings, word: string): Promise<void> {
  const name = checkName(word, 'schedule')
  const rule = {
    cron: settings.text('cron'),
    every: settings.durationMs('every', 1_000),
    timezone: settings.text('timezone'),
  }
  const clears = settings.flag('clear')
  if (clears === (rule.cron !== undefined || rule.every !== undefined)) {
    throw new UsageError(
      `Expected a rule (--cron or --every) or --clear, got ${clears ? 'both' : 'neither'}`,
      `For example: holdfast schedule override ${name} --every 1h`,
    )
  }
  // Reports an invalid rule before the command connects to the database.
  if (!clears) ruleFromOptions('schedule override', rule)
  const { namespace } = settings
  await runAct(settings, 'override-schedule', { namespace, name, ...(clears ? {} : rule) })
}
