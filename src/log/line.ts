import { errorLine, HoldfastError, isInstance } from '../base/index.js'

/** Maximum number of characters in a line, in an error inside a line, and in a name inside a line. */
const maxLine = 1_000
const maxError = 600
const maxName = 80

/**
 * Converts text to one line of limited length. Replaces line breaks and other whitespace by spaces, and escapes control characters and the
 * characters that change the direction of text, because names and error messages can contain anything.
 */
export function toLine(text: string, max = maxLine): string {
  const line = text
    .slice(0, 4 * max)
    .replace(/\s+/g, ' ')
    .trim()
    .toWellFormed()
  const escaped = line.replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, escapeCharacter)
  return escaped.length > max ? `${escaped.slice(0, max - 1)}…`.toWellFormed() : escaped
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Formats any thrown value. Adds the hint of an error that a retry cannot fix. */
export function errorText(error: unknown): string {
  const text = toLine(errorLine(error), maxError)
  const hint = isInstance(error, HoldfastError) && !error.retryable ? error.hint : undefined
  return hint ? `${text}${/[.!?]$/.test(text) ? '' : '.'} ${hint}` : text
}

/** Formats a name for a line, without quotes if it consists of ordinary characters. */
export function nameText(name: string): string {
  const text = toLine(name, maxName)
  return /^[\w./:@-]+$/.test(text) ? text : JSON.stringify(text)
}

/** Formats a list of names, such as `queue "mail"` or `queues "mail" and 2 more`. */
export function quotedList(thing: string, names: readonly string[]): string {
  const [first = '', ...others] = names
  const quoted = `"${toLine(first, maxName)}"`
  return others.length === 0 ? `${thing} ${quoted}` : `${thing}s ${quoted} and ${others.length} more`
}
