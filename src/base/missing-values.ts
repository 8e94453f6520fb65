import { UsageError } from './errors.js'
import { describe } from './user-values.js'

/**
 * Names are often built by template literals, and a template literal prints a value that is missing: `stripe:${body.id}`
 * becomes "stripe:undefined". Every caller without the value then shares one name, so one webhook is handled instead of
 * all, or one user holds the lock of everybody. This is found here, for all names.
 *
 * A name consists of parts: runs of letters, digits, `-` and `_`. Every other character separates two parts, so `:`, `/`,
 * `.`, `#`, `|`, `,` and spaces do. `-` and `_` join words: "is-undefined" is a word that somebody may have chosen.
 *
 * - `undefined`, `NaN` or `Invalid Date` as a whole part, and `[object Object]` or its kind anywhere, are refused.
 * - `null` as a part (people are called Null), and these words next to `-` or `_`, are allowed with a warning.
 */
const refusedPattern =
  /(?<![\p{L}\p{M}\p{N}_-])(?:undefined|NaN|Invalid Date)(?![\p{L}\p{M}\p{N}_-])|\[object [A-Za-z]\w*\]/u
const doubtfulPattern = /(?<![\p{L}\p{M}\p{N}])(?:undefined|NaN|null)(?![\p{L}\p{M}\p{N}])/u
/** Finds nearly all names innocent, and is faster than the other two. */
const suspectPattern = /undefined|NaN|null|Invalid Date|\[object /

const origins: Record<string, string> = {
  undefined: 'a value that is undefined',
  NaN: 'a number that is NaN',
  'Invalid Date': 'a date that is invalid',
  '[object Object]': 'an object instead of one of its properties',
  '[object Promise]': 'a promise that was not awaited',
}

/** The part of a name that stands for a missing value, if there is one. */
export function findMissingValue(name: string): string | undefined {
  return suspectPattern.test(name) ? refusedPattern.exec(name)?.[0] : undefined
}

/** Refuses a name with a part that stands for a missing value. `hint` says what to do where more is known than here. */
export function checkNoMissingValue(name: string, what: string, hint?: string): void {
  const part = findMissingValue(name)
  if (part === undefined) {
    if (suspectPattern.test(name)) warn(name, what)
    return
  }
  throw new UsageError(
    `Expected ${what} to have a value in every part, got ${describe(name)}: its part "${part}" means that the template literal interpolated ${origins[part] ?? 'an object'}`,
    hint ??
      'Look where the value comes from: every caller without it would share this name. Hash a text that may contain such a word.',
  )
}

const warnedShapes = new Set<string>()
/** Names may come from a client, and must not fill the log. */
const maxWarnings = 100

/** Once for names that differ only in their other parts. */
function warn(name: string, what: string): void {
  const [part] = doubtfulPattern.exec(name) ?? []
  if (part === undefined) return
  const shape = name.replace(/[\p{L}\p{M}\p{N}]+/gu, (word, at) =>
    at === 0 || doubtfulPattern.test(word) ? word : '*',
  )
  if (warnedShapes.has(shape) || warnedShapes.size >= maxWarnings) return
  warnedShapes.add(shape)
  process.emitWarning(
    `Expected ${what} to have a value in every part, got ${describe(name)}, with "${part}". If a template literal interpolated a missing value, every caller without it shares this name.`,
    { type: 'HoldfastWarning', code: 'HOLDFAST_DOUBTFUL_NAME' },
  )
}
