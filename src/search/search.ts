import { UsageError } from '../base/errors.js'

/** Search term. `queue:mail` has a keyword and a value, and `17` has only a value. */
interface SearchTerm {
  /** Text before the first colon. Null if there is no colon. */
  readonly word: string | null
  readonly value: string
  /** The term's position in the search text. */
  readonly from: number
  readonly to: number
}

const maxCharacters = 2_000
const maxTerms = 20

/**
 * Parses a search. Spaces separate the terms. Each term has a keyword, a colon and a value, or only a value. A value with spaces must be
 * quoted. Within quotes, a backslash escapes the next character.
 *
 * @example
 * readSearch('queue:mail input.name:"Ann Lee" 17')
 */
export function readSearch(text: string): SearchTerm[] {
  if (text.length > maxCharacters) {
    throw new UsageError(`Expected a search text of at most ${maxCharacters} characters, got ${text.length}`)
  }
  const terms: SearchTerm[] = []
  for (let at = 0; at < text.length; ) {
    if (/\s/.test(text[at]!)) at++
    else {
      const term = readTerm(text, at)
      terms.push(term)
      at = term.to
    }
  }
  if (terms.length > maxTerms) {
    throw new UsageError(`Expected at most ${maxTerms} search terms, got ${terms.length}`)
  }
  return terms
}

function readTerm(text: string, from: number): SearchTerm {
  let at = from
  let [word, read, isQuoted]: [string | null, string, boolean] = [null, '', false]
  for (; at < text.length && !/\s/.test(text[at]!); at++) {
    if (text[at] === ':' && word === null && !isQuoted && read !== '') {
      word = read
      read = ''
    } else if (text[at] === '"' && read === '') {
      const end = endOfQuoted(text, at)
      read = text.slice(at + 1, end).replace(/\\(.)/gs, '$1')
      isQuoted = true
      at = end
    } else read += text[at]
  }
  if (word !== null && read === '' && !isQuoted) {
    throw new UsageError(`Expected a value after "${word}:", got nothing`)
  }
  return { word, value: read, from, to: at }
}

function endOfQuoted(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at
  }
  throw new UsageError(`Expected a closing quote after ${text.slice(from, from + 40)}, got the end of the search text`)
}

/** Formats a value for a search, in quotes if necessary. */
export function writeSearchValue(value: string): string {
  return /^[^\s"]+$/.test(value) ? value : `"${value.replace(/["\\]/g, '\\$&')}"`
}
