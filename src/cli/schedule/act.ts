import { withHoldfast } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printJson } from '../output.js'
import type { Settings } from '../settings.js'
import { found } from './show.js'

/** Asks for a run beside the rule. */
export async function scheduleRun(settings: Settings, name: string): Promise<void> {
  await withHoldfast(settings, async ({ schedules }) => {
    const { members } = await found(schedules, name)
    const tick = await schedules.run(name)
    if (settings.flag('json')) printJson({ tick })
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
    if (settings.flag('json')) printJson({ paused: name })
    say(pausedAt ? `"${name}" was paused already.` : `Paused "${name}": no tick begins until it is resumed.`)
  })
}

/** It ticks again. */
export async function scheduleResume(settings: Settings, name: string): Promise<void> {
  await withHoldfast(settings, async ({ schedules }) => {
    const { pausedAt } = await found(schedules, name)
    if (pausedAt) await schedules.resume(name)
    if (settings.flag('json')) printJson({ resumed: pausedAt ? name : null })
    if (pausedAt) return say(`Resumed "${name}".`)
    say(`"${name}" is not paused.`)
    throw new Exit(exitCode.conditionNotMet)
  })
}
