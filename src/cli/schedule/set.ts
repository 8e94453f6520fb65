import { checkName, UsageError } from '../../base/index.js'
import { ruleFromOptions } from '../../cron/index.js'
import { defineJob } from '../../index.js'
import { withHoldfast } from '../connect.js'
import { printMessage } from '../failure.js'
import { readInput } from '../job/add.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'

export async function scheduleSet(
  settings: Settings,
  word: string,
  queue: string,
  kind: string,
  inputText = 'null',
): Promise<void> {
  const name = checkName(word, 'schedule')
  const rule = {
    cron: settings.text('cron'),
    timezone: settings.text('timezone'),
    every: settings.durationMs('every', 1_000),
  }
  // Reports an invalid rule before the command connects to the database.
  ruleFromOptions('schedule set', rule)
  const overlap = oneOf(settings.text('overlap'), '--overlap', ['allow', 'skip'] as const)
  const missed = oneOf(settings.text('missed'), '--missed', ['skip', 'latest'] as const)
  const priority = settings.wholeNumber('priority', -5, 5)
  const job = defineJob<unknown>(kind, { queue })
  const input = JSON.parse(await readInput(inputText))
  const outcome = await withHoldfast(settings, ({ schedules }) =>
    schedules.upsert(name, { ...rule, job, input, priority, overlap, missed }),
  )
  printDocument<'schedule-set'>(settings, { schedule: name, outcome })
  printMessage(`The schedule "${name}" is ${outcome}.`)
}

function oneOf<Word extends string>(given: string | undefined, option: string, words: readonly Word[]) {
  const word = words.find((one) => one === given)
  if (given === undefined || word !== undefined) return word
  throw new UsageError(`Expected ${option} to be ${words.join(' or ')}, got ${JSON.stringify(given)}`)
}
