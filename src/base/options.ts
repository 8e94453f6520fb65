import { formatDuration, maxTimerMs, parseDuration } from './durations.js'
import { UsageError } from './errors.js'
import { suggest } from './suggest.js'
import { describe, isInstance } from './user-values.js'

/**
 * Rule that checks one option. Every error message has the same form: `Expected wait to be a duration of at least 0ms,
 * got "soon" (string)`.
 */
export interface OptionRule<T> {
  readonly expected: string
  readonly hint?: string
  /** Returns the parsed value, or undefined if the value is invalid. */
  read(given: unknown): T | undefined
}

type ParsedOptions<R> = { [K in keyof R]?: R[K] extends OptionRule<infer T> ? T : never }

/**
 * Parses an options object. Throws for an unknown option. `aliases` maps other libraries' option names to Holdfast's
 * names, so that the error message can suggest the correct name.
 */
export function readOptions<R extends Record<string, OptionRule<unknown>>>(
  where: string,
  given: unknown,
  rules: R,
  aliases: Readonly<Record<string, string>> = {},
): ParsedOptions<R> {
  const read: Record<string, unknown> = {}
  if (given === undefined) return read as ParsedOptions<R>
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new UsageError(`Expected the options of ${where} to be an object, got ${describe(given)}`)
  }
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue
    // Only own properties count, so that the inherited property `constructor` is not treated as a rule.
    const rule = Object.hasOwn(rules, key) ? rules[key] : undefined
    if (rule === undefined) {
      const alias = Object.hasOwn(aliases, key) ? aliases[key] : undefined
      throw new UsageError(unknownOption(where, key, Object.keys(rules), alias))
    }
    const result = rule.read(value)
    if (result === undefined) {
      throw new UsageError(`Expected ${key} to be ${rule.expected}, got ${describe(value)}`, rule.hint)
    }
    read[key] = result
  }
  return read as ParsedOptions<R>
}

function unknownOption(where: string, key: string, known: string[], alias: string | undefined): string {
  const meant = alias ?? suggest(key, known)
  const help = meant ? `did you mean "${meant}"?` : `its options are ${known.join(', ')}`
  return `${where} has no option "${key}": ${help}`
}

export function duration(atLeastMs = 0, atMostMs = Number.POSITIVE_INFINITY): OptionRule<number> {
  const upperBound = Number.isFinite(atMostMs) ? ` and at most ${formatDuration(atMostMs)}` : ''
  return {
    expected: `a duration of at least ${formatDuration(atLeastMs)}${upperBound}`,
    hint: "Use a number of milliseconds, or a string such as '250ms', '5s', '1m30s' or '2h'.",
    read(given) {
      const ms = parseDuration(given)
      return ms !== undefined && ms >= atLeastMs && ms <= atMostMs ? ms : undefined
    },
  }
}

/** Options for `close` and `drain`. */
export const closeOptionRules = { within: duration(0, maxTimerMs) }

export function oneOf<const T extends string>(...words: T[]): OptionRule<T> {
  return {
    expected: words.map((word) => `"${word}"`).join(' or '),
    read: (given) => words.find((word) => word === given),
  }
}

export function wholeNumber(atLeast: number, atMost = Number.MAX_SAFE_INTEGER): OptionRule<number> {
  const range = atMost === Number.MAX_SAFE_INTEGER ? `of at least ${atLeast}` : `between ${atLeast} and ${atMost}`
  return {
    expected: `a whole number ${range}`,
    read: (given) =>
      Number.isSafeInteger(given) && (given as number) >= atLeast && (given as number) <= atMost
        ? (given as number)
        : undefined,
  }
}

export const flag: OptionRule<boolean> = {
  expected: 'true or false',
  read: (given) => (typeof given === 'boolean' ? given : undefined),
}

export const text: OptionRule<string> = {
  expected: 'a non-empty string',
  read: (given) => (typeof given === 'string' && given !== '' ? given : undefined),
}

export const abortSignal: OptionRule<AbortSignal> = {
  expected: 'an AbortSignal',
  read: (given) => (isInstance(given, AbortSignal) ? given : undefined),
}

/** Returns the rule for an option whose value is a function. */
export function callback<T extends (...given: never[]) => unknown>(expected: string): OptionRule<T> {
  return { expected, read: (given) => (typeof given === 'function' ? (given as T) : undefined) }
}

/** Returns a rule for an object from a library that the user uses. The object is recognized by its members. */
export function objectWith<T>(expected: string, ...members: (keyof T & string)[]): OptionRule<T> {
  const fits = (given: unknown): given is T =>
    (typeof given === 'object' || typeof given === 'function') &&
    given !== null &&
    members.every((member) => member in given)
  return { expected, read: (given) => (fits(given) ? given : undefined) }
}
