import { formatDuration, longestTimerMs, parseDuration } from './durations.js'
import { UsageError } from './errors.js'
import { suggest } from './suggest.js'

/**
 * Options are checked once, at the door, and every complaint has one form:
 * `Expected wait to be a duration of at least 0ms, got "soon" (string)`.
 */
export interface Rule<T> {
  readonly expected: string
  /** The value in the form the rooms use, or undefined when it does not fit. */
  read(given: unknown): T | undefined
}

type Read<R> = { [K in keyof R]?: R[K] extends Rule<infer T> ? T : never }

/** Checks an options object against its rules; unknown keys are refused with "did you mean". */
export function readOptions<R extends Record<string, Rule<unknown>>>(where: string, given: unknown, rules: R): Read<R> {
  const read: Record<string, unknown> = {}
  if (given === undefined) return read as Read<R>
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new UsageError(`Expected the options of ${where} to be an object, got ${describe(given)}`)
  }
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue
    // An object has more than its own: `constructor` is no rule.
    const rule = Object.hasOwn(rules, key) ? rules[key] : undefined
    if (rule === undefined) throw new UsageError(unknownOption(where, key, Object.keys(rules)))
    const result = rule.read(value)
    if (result === undefined) throw new UsageError(`Expected ${key} to be ${rule.expected}, got ${describe(value)}`)
    read[key] = result
  }
  return read as Read<R>
}

function unknownOption(where: string, key: string, known: string[]): string {
  const meant = suggest(key, known)
  const help = meant ? `did you mean "${meant}"?` : `it takes ${known.join(', ')}`
  return `${where} has no option "${key}": ${help}`
}

export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'string')
    return `${JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}…` : value)} (string)`
  if (typeof value === 'object') return Array.isArray(value) ? 'an array' : `an object (${classOf(value)})`
  if (typeof value === 'function') return 'a function'
  return `${String(value)} (${typeof value})`
}

/** It may be anybody's object: one without a prototype, or whose getters throw. */
function classOf(value: object): string {
  try {
    const name: unknown = value.constructor?.name
    return typeof name === 'string' ? name : 'Object'
  } catch {
    return 'Object'
  }
}

export function duration(atLeastMs = 0, atMostMs = Number.POSITIVE_INFINITY): Rule<number> {
  const most = Number.isFinite(atMostMs) ? ` and at most ${formatDuration(atMostMs)}` : ''
  return {
    expected: `a duration of at least ${formatDuration(atLeastMs)}${most}`,
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
  read: (given) => (given instanceof AbortSignal ? given : undefined),
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
