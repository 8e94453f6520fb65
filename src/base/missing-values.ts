import { UsageError } from './errors.js'
import { describe } from './user-values.js'

/**
 * Names are often built with template literals, which turn a missing value into text: `stripe:${body.id}` becomes "stripe:undefined". Every
 * call without the value then uses the same name. As a result, only one of many webhooks is handled, or one user locks out all other users.
 * The checks in this file find such names.
 *
 * A name consists of parts: runs of letters, digits, `-` and `_`. Any other character separates two parts.
 *
 * - A name is rejected if one of its parts is `undefined`, `NaN` or `Invalid Date`, or if it contains text such as `[object Object]`.
 * - A name is allowed, with a warning, if one of its parts is `null` (because Null is a surname), or if one of these words is next to `-`
 *   or `_`.
 */
const refusedPattern =
  /(?<![\p{L}\p{M}\p{N}_-])(?:undefined|NaN|Invalid Date)(?![\p{L}\p{M}\p{N}_-])|\[object [A-Za-z]\w*\]/u
const doubtfulPattern = /(?<![\p{L}\p{M}\p{N}])(?:undefined|NaN|null)(?![\p{L}\p{M}\p{N}])/u
/** Pattern for a fast first check. Most names do not match this pattern. */
const suspectPattern = /undefined|NaN|null|Invalid Date|\[object /

const origins: Record<string, string> = {
  undefined: 'an undefined value',
  NaN: 'the number NaN',
  'Invalid Date': 'an invalid date',
  '[object Object]': 'an object instead of one of its properties',
  '[object Promise]': 'a promise that was not awaited',
}

/** Returns the text that a missing value left in a name, such as `undefined`. Returns undefined if the name contains no such text. */
export function findMissingValue(name: string): string | undefined {
  return suspectPattern.test(name) ? refusedPattern.exec(name)?.[0] : undefined
}

/**
 * Throws if a missing value left its text in the name, such as `undefined`. `hint` replaces the error's general hint.
 */
export function checkNoMissingValue(name: string, what: string, hint?: string): void {
  const part = findMissingValue(name)
  if (part === undefined) {
    if (suspectPattern.test(name)) warn(name, what)
    return
  }
  throw new UsageError(
    `Expected ${what} to have a value in every part, got ${describe(name)}: the part "${part}" shows that a template literal interpolated ${origins[part] ?? 'an object'}`,
    hint ??
      'Check where the value comes from: all callers without a value would share this name. If a name can contain this word by design, use a hash of the name.',
  )
}

/**
 * Throws if the whole content of a payload is the text that a missing value left, such as `[object Object]`. Content may contain such a
 * word, because users write it. Names may not.
 */
export function checkContentHasValue(content: string, what: string): void {
  if (findMissingValue(content) !== content) return
  checkNoMissingValue(
    content,
    what,
    'Check where the value comes from: all payloads would have the same content, so a different payload would not be detected.',
  )
}

const warnedShapes = new Set<string>()
/** Maximum number of warnings. Without a maximum, clients whose input becomes part of names could fill the log with warnings. */
const maxWarnings = 100

/** Warns about a doubtful name. Names that differ only in their other parts cause only one warning. */
function warn(name: string, what: string): void {
  const [part] = doubtfulPattern.exec(name) ?? []
  if (part === undefined) return
  const shape = name.replace(/[\p{L}\p{M}\p{N}]+/gu, (word, at) =>
    at === 0 || doubtfulPattern.test(word) ? word : '*',
  )
  if (warnedShapes.has(shape) || warnedShapes.size >= maxWarnings) return
  warnedShapes.add(shape)
  process.emitWarning(
    `Expected ${what} to have a value in every part, got ${describe(name)}, which contains "${part}". If a template literal interpolated a missing value, all callers without that value share this name.`,
    { type: 'HoldfastWarning', code: 'HOLDFAST_DOUBTFUL_NAME' },
  )
}
