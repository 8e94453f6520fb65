import { formatDuration, longestTimerMs, parseDuration } from './durations.js'
import { UsageError } from './errors.js'
import { describe, isInstance } from './foreign.js'
import { suggest } from './suggest.js'

/**
 * Options are checked once, at the door, and every complaint has one form:
 * `Expected wait to be a duration of at least 0ms, got "soon" (string)`.
 */
export interface Rule<T> {
  readonly expected: string
  /** How to write it right. */
  readonly hint?: string
  /** The value in the form the rooms use, or undefined when it does not fit. */
  read(given: unknown): T | undefined
}

type Read<R> = { [K in keyof R]?: R[K] extends Rule<infer T> ? T : never }

/**
 * Checks an options object against its rules; unknown keys are refused with "did you mean". `elsewhere` maps names that other libraries
 * use to ours.
 */
export function readOptions<R extends Record<string, Rule<unknown>>>(
  where: string,
  given: unknown,
  rules: R,
  elsewhere: Readonly<Record<string, string>> = {},
): Read<R> {
  const read: Record<string, unknown> = {}
  if (given === undefined) return read as Read<R>
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new UsageError(`Expected the options of ${where} to be an object, got ${describe(given)}`)
  }
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue
    // An object has more than its own: `constructor` is no rule.
    const rule = Object.hasOwn(rules, key) ? rules[key] : undefined
    if (rule === undefined) {
      const ours = Object.hasOwn(elsewhere, key) ? elsewhere[key] : undefined
      throw new UsageError(unknownOption(where, key, Object.keys(rules), ours))
    }
    const result = rule.read(value)
    if (result === undefined) {
      throw new UsageError(`Expected ${key} to be ${rule.expected}, got ${describe(value)}`, rule.hint)
    }
    read[key] = result
  }
  return read as Read<R>
}

function unknownOption(where: string, key: string, known: string[], ours: string | undefined): string {
  const meant = ours ?? suggest(key, known)
  const help = meant ? `did you mean "${meant}"?` : `it takes ${known.join(', ')}`
  return `${where} has no option "${key}": ${help}`
}

export function duration(atLeastMs = 0, atMostMs = Number.POSITIVE_INFINITY): Rule<number> {
  const most = Number.isFinite(atMostMs) ? ` and at most ${formatDuration(atMostMs)}` : ''
  return {
    expected: `a duration of at least ${formatDuration(atLeastMs)}${most}`,
    hint: "Write a number of milliseconds, or a text such as '250ms', '5s', '1m30s' or '2h'.",
    read(given) {
      const ms = parseDuration(given)
      return ms !== undefined && ms >= atLeastMs && ms <= atMostMs ? ms : undefined
    },
  }
}

/** How closing and draining are asked for: how long what runs may take. No longer than a timer can wait. */
export const closeRules = { within: duration(0, longestTimerMs) }

export function oneOf<const T extends string>(...words: T[]): Rule<T> {
  return {
    expected: words.map((word) => `"${word}"`).join(' or '),
    read: (given) => words.find((word) => word === given),
  }
}

export function wholeNumber(atLeast: number, atMost = Number.MAX_SAFE_INTEGER): Rule<number> {
  const range = atMost === Number.MAX_SAFE_INTEGER ? `of at least ${atLeast}` : `between ${atLeast} and ${atMost}`
  return {
    expected: `a whole number ${range}`,
    read: (given) =>
      Number.isSafeInteger(given) && (given as number) >= atLeast && (given as number) <= atMost
        ? (given as number)
        : undefined,
  }
}

export const flag: Rule<boolean> = {
  expected: 'true or false',
  read: (given) => (typeof given === 'boolean' ? given : undefined),
}

export const text: Rule<string> = {
  expected: 'a string that is not empty',
  read: (given) => (typeof given === 'string' && given !== '' ? given : undefined),
}

export const abortSignal: Rule<AbortSignal> = {
  expected: 'an AbortSignal',
  read: (given) => (isInstance(given, AbortSignal) ? given : undefined),
}

/** A function of the user's. `expected` says what it is for. */
export function callback<T extends (...given: never[]) => unknown>(expected: string): Rule<T> {
  return { expected, read: (given) => (typeof given === 'function' ? (given as T) : undefined) }
}

/** A thing that a library of the user made, known by what it can do. */
export function made<T>(expected: string, ...members: (keyof T & string)[]): Rule<T> {
  const fits = (given: unknown): given is T =>
    (typeof given === 'object' || typeof given === 'function') &&
    given !== null &&
    members.every((member) => member in given)
  return { expected, read: (given) => (fits(given) ? given : undefined) }
}
