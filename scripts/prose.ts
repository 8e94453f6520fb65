// Checks the project's English: documentation, comments, and messages. Prints each mistake with its place, and fails if there is one.
//
// The rules are few and literal, so that a finding is never a matter of taste: words that this project replaced by plainer ones, sentences of
// more than 35 words, and doc comments that begin with a relative pronoun.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface Passage {
  readonly line: number
  readonly kind: 'documentation' | 'comment' | 'message'
  readonly text: string
}

export interface Mistake {
  readonly line: number
  readonly text: string
}

const maxWords = 35

/** Words and phrases that must not appear, with the words to use instead. */
const replaced: readonly [pattern: RegExp, instead: string][] = [
  [/\bwhoever\b/i, 'name the process, person or caller'],
  [/\bwhatever\b/i, 'any, every'],
  [/(?<!"|as )\b(?:nobody|somebody)\b(?!")/i, 'no process, another process, a person'],
  [/\b(?:is|are|was|were|been|be) told\b|\btold of\b/i, 'is notified, receives'],
  [/\bmends?\b|\bmended\b/i, 'fix'],
  [/\banew\b/i, 'again'],
  [/\bany more\b/i, 'no longer'],
  [/\ball the same\b/i, 'anyway, nevertheless'],
  [/\bof (?:yours|ours|theirs)\b/i, 'your own, our own, their own'],
  [/\bat once\b/i, 'immediately, or at the same time'],
  [/\b(?:goes|go|went) on\b/i, 'continues'],
  [/\b(?:comes|came|become|becomes|became) of (?:it|them|that)\b/i, 'result'],
  [/\bso many\b/i, 'the number'],
  [/\bfor as long as\b/i, 'while, until'],
  [/\bfrom when on\b/i, 'since'],
  [/\btime (?:is|was) over\b|\bis at an end\b/i, 'times out, has finished'],
  [/\btakes no new work\b/i, 'stops claiming'],
]

const startOfDocComment = /^(?:What|Whoever|Whether)\b/

/** Returns the mistakes of a passage. */
export function mistakesIn({ line, kind, text }: Passage): Mistake[] {
  const mistakes: Mistake[] = []
  const plain = text.replace(/`[^`]*`/g, 'code').replace(/\]\([^)]*\)/g, ']')
  for (const [pattern, instead] of replaced) {
    const found = pattern.exec(plain)
    if (found) mistakes.push({ line, text: `"${found[0]}": write ${instead}` })
  }
  if (kind === 'message') return mistakes
  for (const sentence of plain.split(/(?<=[.!?:;])\s+/)) {
    const words = sentence.split(/\s+/).filter((word) => /[a-z]/.test(word)).length
    if (words > maxWords) mistakes.push({ line, text: `a sentence of ${words} words: "${sentence.slice(0, 60)}…"` })
  }
  return mistakes
}

/** Returns the passages of a file that people read. */
export function passagesOf(path: string, source: string): Passage[] {
  if (path.endsWith('.md')) return [...paragraphs(source)]
  return [...comments(source), ...(/\.tsx?$/.test(path) ? messages(source) : [])]
}

function* paragraphs(source: string): Generator<Passage> {
  const text = source.replace(/```[\s\S]*?```|<!--[\s\S]*?-->/g, (block) => block.replace(/[^\n]/g, ''))
  let line = 1
  // Each cell of a table, and each item of a list, is a passage of its own.
  for (const part of text.split(/(\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\s\|\s|\|\n|\n(?=\|))/)) {
    const isHeading = /^\s*#/.test(part)
    if (!isHeading && part.trim() !== '') yield { line, kind: 'documentation', text: part.replace(/\s+/g, ' ').trim() }
    line += part.split('\n').length - 1
  }
}

function* comments(source: string): Generator<Passage> {
  let open: { line: number; texts: string[] } | undefined
  const passageOf = ({ line, texts }: { line: number; texts: string[] }): Passage => ({
    line,
    kind: 'comment',
    text: texts.join(' ').replace(/\s+/g, ' ').trim(),
  })
  for (const [index, code] of source.split('\n').entries()) {
    const comment =
      /^\s*(?:\/\/|\/\*\*?|\*(?!\/)|--)\s?(.*?)(?:\*\/)?\s*$/.exec(code) ?? /^\s*'([A-Z].* .*)';$/.exec(code)
    const text = comment?.[1]
    const isTag = text !== undefined && /^\s*(?:@|```|name:)/.test(text)
    if (text !== undefined && !isTag && text.trim() !== '') {
      open ??= { line: index + 1, texts: [] }
      open.texts.push(text)
    } else if (open) {
      yield passageOf(open)
      open = undefined
    }
  }
  if (open) yield passageOf(open)
}

function* messages(source: string): Generator<Passage> {
  for (const [index, code] of source.split('\n').entries()) {
    if (/^\s*(?:\/\/|\*|\/\*)/.test(code)) continue
    for (const [, , text] of code.matchAll(/(?<!\w)(['`])((?:(?!\1)[^\\]|\\.){12,})\1/g)) {
      if (/[a-z] [a-z]/.test(text!)) yield { line: index + 1, kind: 'message', text: text! }
    }
  }
}

/** Returns the mistakes of a file. */
export function check(path: string, source: string): Mistake[] {
  const passages = passagesOf(path, source)
  const docComments = source.split('\n').flatMap((code, index) => {
    const text =
      /^\s*\/\*\*\s+(.*)$/.exec(code)?.[1] ??
      (/^\s*\/\*\*\s*$/.test(source.split('\n')[index - 1] ?? '') ? /^\s*\*\s(.*)$/.exec(code)?.[1] : undefined)
    const word = text && startOfDocComment.exec(text)?.[0]
    const isBoolean = word === 'Whether'
    return word && !isBoolean
      ? [{ line: index + 1, text: `a doc comment begins with "${word}": begin with a verb or a noun` }]
      : []
  })
  return [...passages.flatMap(mistakesIn), ...docComments]
}

const isChecked = (path: string) =>
  /\.(?:md|tsx?|js|sql|css)$/.test(path) &&
  !/^docs\/reference\/api|^scripts\/prose|node_modules|^test\/unit\/prose/.test(path)

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = execFileSync('git', ['ls-files'], { encoding: 'utf8', maxBuffer: 1e8 }).split('\n').filter(isChecked)
  let count = 0
  for (const path of files) {
    for (const { line, text } of check(path, readFileSync(path, 'utf8'))) {
      console.error(`${path}:${line}: ${text}`)
      count++
    }
  }
  if (count > 0) process.exitCode = 1
}
