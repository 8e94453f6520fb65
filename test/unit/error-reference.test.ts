// Checks that docs/reference/errors.md has one section for each error code and each error class, and that the texts which the page does not
// take from the classes exist in the code.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(`${root}/${file}`, 'utf8')

const sources = readdirSync(`${root}/src`, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => read(`src/${file}`))
const page = read('docs/reference/errors.md')

/** Maps each code to its section. */
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf('\n')), text.split(/^## /m)[0]!]),
)

/** Returns the error classes of `src` with their doc comments. */
function errorClasses(): { name: string; comment: string }[] {
  const declares = /(?:\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n)?(?:export )?class (\w+) extends (\w+)/g
  return sources.flatMap((text) =>
    [...text.matchAll(declares)]
      .filter(([, , , base]) => base!.endsWith('Error') && base !== 'Error')
      .map(([, comment = '', name]) => ({ name: name!, comment: comment.replaceAll(/\s*\n \*\s*|^\s+/g, ' ').trim() })),
  )
}

test('docs/reference/errors.md has exactly one section for each error code', () => {
  const [, listed] = /export type HoldfastErrorCode =\n((?: {2}\| '\w+'\n)+)/.exec(read('src/base/errors.ts'))!
  const codes = [...listed!.matchAll(/'(\w+)'/g)].map(([, code]) => code!)
  expect(codes.length).toBeGreaterThan(50)
  const headings = [...page.matchAll(/^### (.*)$/gm)].map(([, heading]) => heading!)
  expect(headings.sort()).toEqual(codes.sort())
})

test('every section of docs/reference/errors.md states all facts about its error', () => {
  const facts = ['Class(?:es)?', 'Retryable', 'Thrown by', 'Message', 'Hint', 'What to do']
  for (const [code, text] of sections) {
    const missing = facts.filter((fact) => !new RegExp(`^- \\*\\*${fact}\\*\\*.*: .`, 'm').test(text))
    expect({ code, missing }).toEqual({ code, missing: [] })
  }
})

test('every section of docs/reference/errors.md begins with its own sentence', () => {
  const beginnings = new Map<string, string[]>()
  for (const [code, text] of sections) {
    const sentence = text.split('\n\n')[1]!
    beginnings.set(sentence, [...(beginnings.get(sentence) ?? []), code])
  }
  expect([...beginnings].filter(([, codes]) => codes.length > 1)).toEqual([])
})

test('the doc comment of every error class states when the error occurs', () => {
  const classes = errorClasses()
  expect(classes.length).toBeGreaterThan(50)
  const unclear = classes.filter(({ comment }) => !/^(Thrown|Abort reason|Cause|Error that) /.test(comment))
  expect(unclear).toEqual([])
})

test('docs/reference/errors.md names every error class', () => {
  const unnamed = errorClasses().filter(({ name }) => !page.includes(`\`${name}\``))
  expect(unnamed.map(({ name }) => name)).toEqual([])
})

test('docs/reference/errors.md contains only hints of the code', () => {
  const plain = (text: string) => text.replaceAll(/\\|`/g, '')
  const code = plain(sources.join('\n'))
  const hints = [...page.matchAll(/^- \*\*Hint\*\*: (.*)$/gm)].map(([, hint]) => plain(hint!))
  // A hint with a name or an address is assembled from several texts. Its first sentence, without the quoted name, exists in the code.
  const starts = hints
    .filter((hint) => hint !== 'none.')
    .map((hint) => hint.split(/'invoice|(?<=Did you mean )"|(?<=\.) /)[0]!)
  expect(starts.length).toBeGreaterThan(50)
  expect(starts.filter((start) => !code.includes(start))).toEqual([])
})

test('docs/reference/errors.md names only calls that the API reference contains', () => {
  const calls = [...page.matchAll(/`(locks|leases|elections|limits|once|shares|schedules|jobs|holdfast)\.([a-z]\w*)`/g)]
  expect(calls.length).toBeGreaterThan(50)
  const unknown = calls.filter(
    ([, room, method]) => !new RegExp(`^ {2}(get )?${method}[(<]`, 'm').test(read(`docs/reference/api/${room}.md`)),
  )
  expect(unknown.map(([call]) => call)).toEqual([])
})
