import { UsageError } from '../../base/index.js'
import { readRule, ruleInWords } from '../../cron/index.js'
import { withHoldfast } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { found } from './show.js'

/** Asks for a run beside the rule. */
export async function scheduleRun(settings: Settings, name: string): Promise<void> {
  await withHoldfast(settings, async ({ schedules }) => {
    const { members } = await found(schedules, name)
    const tick = await schedules.run(name)
    printDocument<'schedule-run'>(settings, { tick })
    if (tick === null) {
      say(`A run of "${name}" is there, and it allows no other beside or behind it.`)
      throw new Exit(exitCode.conditionNotMet)
    }
    const by = members.length > 0 ? 'a member begins it' : 'it begins when an instance has it in its code'
    say(`Asked for a run of "${name}" (${tick.toISOString()}): ${by}.`)
  })
}

/** No tick begins any more. */
export async function schedulePause(settings: Settings, name: string): Promise<void> {
  await withHoldfast(settings, async ({ schedules }) => {
    const { pausedAt } = await found(schedules, name)
    await schedules.pause(name)
    printDocument<'schedule-pause'>(settings, { paused: name })
    say(pausedAt ? `"${name}" was paused already.` : `Paused "${name}": no tick begins until it is resumed.`)
  })
}

/** It ticks again. */
export async function scheduleResume(settings: Settings, name: string): Promise<void> {
  await withHoldfast(settings, async ({ schedules }) => {
    const { pausedAt } = await found(schedules, name)
    if (pausedAt) await schedules.resume(name)
    printDocument<'schedule-resume'>(settings, { resumed: pausedAt ? name : null })
    if (pausedAt) return say(`Resumed "${name}".`)
    say(`"${name}" is not paused.`)
    throw new Exit(exitCode.conditionNotMet)
  })
}

/** Another rule than that of the code, until it is cleared. */
export async function scheduleOverride(settings: Settings, name: string): Promise<void> {
  const given = {
    cron: settings.text('cron'),
    every: settings.durationMs('every', 1_000),
    timezone: settings.text('timezone'),
  }
  const clears = settings.flag('clear')
  if (clears === (given.cron !== undefined || given.every !== undefined)) {
    throw new UsageError(
      `Expected a rule, by --cron or --every, or --clear, got ${clears ? 'both' : 'neither'}`,
      `Write: holdfast schedule override ${name} --every 1h`,
    )
  }
  // Before it asks the database, so that a mistake is told without one.
  if (!clears) readRule('schedule override', given)
  await withHoldfast(settings, async ({ schedules }) => {
    const { override, codeRule } = await found(schedules, name)
    await schedules.override(name, clears ? null : given)
    const { rule } = await found(schedules, name)
    printDocument<'schedule-override'>(settings, { schedule: name, rule, overridden: !clears })
    const words = ruleInWords(rule)
    if (!clears)
      say(
        `"${name}" ticks by ${words}, whatever is deployed, until that is cleared (its code: ${ruleInWords(codeRule)}).`,
      )
    else if (override) say(`"${name}" ticks by the rule of its code again: ${words}.`)
    else {
      say(`"${name}" has no other rule than that of its code: ${words}.`)
      throw new Exit(exitCode.conditionNotMet)
    }
  })
}
