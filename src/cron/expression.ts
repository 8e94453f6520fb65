// Validates and normalizes cron expressions.
import { describe, suggest, UsageError } from '../base/index.js'
import { Calendar } from './calendar.js'

const nicknames: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

const fields = [
  { name: 'second', takes: '0 to 59, such as "0", "*/10" or "0,30"' },
  { name: 'minute', takes: '0 to 59, such as "0", "*/10" or "0,30"' },
  { name: 'hour', takes: '0 to 23, such as "3", "9-17", "*/2" or "8,20"' },
  { name: 'day of the month', takes: '1 to 31, "L" for the last day, or "15W" for the weekday nearest to the 15th' },
  { name: 'month', takes: '1 to 12 or JAN to DEC, such as "1", "*/3" or "JAN,JUL"' },
  { name: 'day of the week', takes: '0 to 7 or SUN to SAT, such as "MON-FRI", "FRI#2" or "FRI#L"' },
]

/**
 * Normalizes an expression: expands nicknames, uses single spaces and capital letters, replaces `?` with `*`, and omits a seconds field
 * that is 0.
 */
export function readCron(given: string): { text: string; calendar: Calendar } {
  const words = given.trim().split(/\s+/)
  const { text, calendar } = normalize(given, words[0]!.startsWith('@') ? expandNickname(given, words) : words)
  if (!calendar.matchesAnyDate) {
    throw new UsageError(
      `Expected cron to match at least one date, got ${describe(given)}`,
      'The schedule would never tick, because none of its months has such a day.',
    )
  }
  return { text, calendar }
}

function expandNickname(given: string, words: string[]): string[] {
  const [word] = words
  const found = words.length === 1 ? nicknames[word!.toLowerCase()] : undefined
  if (found) return found.split(' ')
  throw new UsageError(
    `Expected cron to be a nickname (${Object.keys(nicknames).join(', ')}) or five or six fields, got ${describe(given)}`,
    nicknameHint(word!),
  )
}

function nicknameHint(word: string): string | undefined {
  if (word === '@every') return "Use the option every: '5m'."
  if (word === '@reboot') return 'Work that runs once when a process starts does not need a schedule.'
  const meant = suggest(word, Object.keys(nicknames))
  return meant && `Did you mean "${meant}"?`
}

function normalize(given: string, words: string[]): { text: string; calendar: Calendar } {
  if (words.length < 5 || words.length > 6) {
    throw new UsageError(
      `Expected cron to have five fields (minute, hour, day of the month, month, day of the week), or six fields with the seconds first, got ${describe(given)}`,
      words.length === 7 ? 'Remove the year. For a single tick, use `at`.' : undefined,
    )
  }
  const parts = words.map((word) => word.toUpperCase().replaceAll('?', '*'))
  const calendar = tryParse(parts)
  if (!calendar) throw fieldError(given, words, parts)
  return { text: (parts.length === 6 && /^0+$/.test(parts[0]!) ? parts.slice(1) : parts).join(' '), calendar }
}

/** Returns an error that names the first invalid field. */
function fieldError(given: string, words: string[], parts: string[]): UsageError {
  const at = parts.findIndex((part, index) => !tryParse(parts.map((_, other) => (other === index ? part : '*'))))
  const { name, takes } = fields.slice(-parts.length)[at]!
  return new UsageError(
    `Expected the ${name} field of cron to be ${takes}, got ${describe(words[at])} in ${describe(given)}`,
    fieldHint(parts[at]!),
  )
}

function tryParse(parts: string[]): Calendar | undefined {
  try {
    return new Calendar(parts.join(' '))
  } catch {
    return undefined
  }
}

/** Returns a hint if the field uses a notation that only other cron implementations accept. */
function fieldHint(part: string): string | undefined {
  if (/^\d*\/\d+$/.test(part)) return `Use "*${part.slice(part.indexOf('/'))}", or write a range before the slash.`
  if (/^\w+-\w+$/.test(part))
    return 'A range must not end before it starts. Split a range that wraps around, such as "22-23,0-3".'
  return undefined
}
