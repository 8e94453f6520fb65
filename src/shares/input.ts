import {
  abortSignal,
  checkName,
  checkNameFits,
  checkNoMissingValue,
  describe,
  duration,
  flag,
  listOf,
  type OptionRule,
  parseInstant,
  readOptions,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { resourceName } from './owned-resource.js'

const maxRoundLength = 500

const round: OptionRule<string> = {
  expected: `a string of 1 to ${maxRoundLength} characters or a valid Date`,
  read(given) {
    if (typeof given !== 'string') return parseInstant(given)?.toISOString()
    const fits = given !== '' && given.length <= maxRoundLength && given.isWellFormed() && !given.includes('\0')
    if (!fits) return undefined
    checkNoMissingValue(given, 'round')
    return given
  },
}

const eachRules = {
  round,
  window: duration(0, 86_400_000),
  concurrency: wholeNumber(1, 1_000),
  waitForOthers: flag,
  signal: abortSignal,
}

export function readEachOptions(given: unknown) {
  const read = readOptions('shares.each', given, eachRules)
  if (read.round === undefined || read.window === undefined) return read
  throw new UsageError(
    'Expected either round or window, got both',
    'A named round does not need a window, because each resource is processed only once in the round, even if a call is late.',
  )
}

export function checkShare(name: string): void {
  checkName(name, 'the share')
  checkNameFits(resourceName(name, 'x'), 'the share name including its prefix')
}

/** Checks resource names and removes duplicates. */
export function checkResources(share: string, given: unknown): readonly string[] {
  const list = listOf(given)
  if (!list) throw new UsageError(`Expected the resources to be an array, got ${describe(given)}`)
  for (const resource of list) {
    const name = checkName(resource, 'a resource')
    checkNameFits(resourceName(share, name), 'a resource name including its prefix')
  }
  return [...new Set(list as string[])]
}
